// The forms of /docs: each sends a request to its route and shows the answer.

import { authorisation, keepKey } from "./service.js";

for (const form of document.querySelectorAll("form")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
}
document.querySelector("#key").addEventListener("change", (event) => keepKey(event.target.value));

async function send(form) {
  const { method, path } = form.dataset;
  const output = form.querySelector("output");
  const parameters = new URLSearchParams();
  let place = path.slice(1);
  for (const { name, value } of form.querySelectorAll("input")) {
    if (place.includes(`{${name}}`)) place = place.replace(`{${name}}`, encodeURIComponent(value));
    else if (value) parameters.set(name, value);
  }
  const body = form.querySelector("textarea")?.value;
  const headers = { ...authorisation(), ...(body === undefined ? {} : { "Content-Type": "application/json" }) };
  output.textContent = "…";
  try {
    const response = await fetch(parameters.size ? `${place}?${parameters}` : place, { method, headers, body });
    output.textContent = `${response.status} ${response.statusText}\n${indented(await response.text())}`;
  } catch {
    output.textContent = "The service cannot be reached.";
  }
}

function indented(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
