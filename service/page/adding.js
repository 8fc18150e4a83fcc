// Adds text files to the index, if the address had a key to write, #write=KEY, as `swiftlet demo` prints it.

import { fill } from "./asides.js";
import { counted } from "./drawing.js";
import { keep, kept, putDocuments } from "./service.js";

const KEY = "swiftlet.write-key";
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
    const documents = await Promise.all([...files.files].map(read));
    files.value = "";
    if (!documents.length) return;
    outcome.textContent = "Adding";
    await fill(outcome, () => putDocuments(documents, kept(KEY)), (answer) => {
      outcome.textContent = `Added ${counted(answer.documents, "document")}.`;
      onAdded();
    });
  });
}

async function read(file) {
  return { _id: file.name, title: file.name, text: await file.text() };
}
