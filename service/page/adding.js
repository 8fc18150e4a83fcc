// Adds text files to the index, if the address had a key to write, #write=KEY, as `swiftlet demo` prints it.

import { counted, drawLink } from "./drawing.js";
import { Problem, fetchInfo, fill, keep, kept, putDocuments } from "./service.js";

const KEY = "swiftlet.write-key";
const HEADING = /^(?:\s*\n)?# +([^`*_[\]<>#\n]+)(?:\n|$)/; // the first line that is not blank, without other marks
const files = document.getElementById("add-files");
const outcome = document.getElementById("add-outcome");

/** Offer to add files, if there is a key; `onAdded` is called after each time. */
export function offerToAdd(onAdded) {
  const given = new URLSearchParams(location.hash.slice(1)).get("write");
  if (given) {
    keep(KEY, given);
    history.replaceState(history.state, "", location.pathname + location.search);
  }
  document.getElementById("add").hidden = !kept(KEY);
  files.addEventListener("change", async () => {
    const chosen = [...files.files];
    files.value = "";
    if (!chosen.length) return;
    outcome.textContent = "Adding";
    let documents;
    const request = async () => {
      documents = await read(chosen);
      return putDocuments(documents, kept(KEY));
    };
    await fill(outcome, request, () => {
      const [{ _id, title }] = documents;
      const what = documents.length > 1 ? counted(documents.length, "document") : drawLink({ title, document_id: _id }, {});
      outcome.replaceChildren("Added ", what, ".");
      onAdded();
    });
  });
}

/** The files as documents, all of which one request can hold. */
async function read(chosen) {
  const { limits } = await fetchInfo();
  const documents = [];
  let size = sizeOf({ documents });
  const fit = (name, bytes) => {
    if (bytes <= limits.max_body_bytes) return;
    const [needed, most] = [bytes, limits.max_body_bytes].map((number) => counted(number, "byte"));
    throw refusal(name, `makes ${needed} to send, and the service takes at most ${most} at once`);
  };
  for (const file of chosen) {
    fit(file.name, size + file.size);
    const text = textOf(await file.arrayBuffer());
    if (text === null) throw refusal(file.name, "is not a text file in UTF-8");
    if (!text.trim()) throw refusal(file.name, "has no text");
    const heading = file.name.endsWith(".md") ? HEADING.exec(text)?.[1].trim() : "";
    const made = { _id: file.name, title: heading || file.name, text };
    documents.push(made);
    size += sizeOf(made) + 1; // and a comma
    fit(file.name, size);
  }
  return documents;
}

function sizeOf(body) {
  return new Blob([JSON.stringify(body)]).size;
}

/** The text in UTF-8, null if the bytes are something else. */
function textOf(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}

function refusal(name, reason) {
  return Object.assign(new Problem(422), { words: `“${name}” ${reason}. Nothing was added.` });
}
