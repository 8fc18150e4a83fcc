// A search as a command and as a program. A key is not written into them: they read it from SWIFTLET_KEY.

/** The search as a command for a POSIX shell. */
export function asCurl(address, body, needsKey) {
  const key = needsKey ? ' -H "Authorization: Bearer $SWIFTLET_KEY"' : "";
  return `curl -s ${quoted(address)}${key} -d ${quoted(JSON.stringify(body))}`;
}

/** The search as a Python program, without packages. */
export function asPython(address, body, needsKey) {
  const headers = needsKey ? ', {"Authorization": "Bearer " + os.environ["SWIFTLET_KEY"]}' : "";
  return `import json
${needsKey ? "import os\n" : ""}from urllib.request import Request, urlopen

body = ${inPython(body)}
request = Request(${inPython(address)}, json.dumps(body).encode()${headers})
for hit in json.load(urlopen(request))["hits"]:
    print(f"{hit['score']:.3f}", hit["document_id"], hit["title"])`;
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function inPython(value) {
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(inPython).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value)
    .map(([name, each]) => `${JSON.stringify(name)}: ${inPython(each)}`)
    .join(", ")}}`;
}
