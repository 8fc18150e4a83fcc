// What is asked for besides the hits: why a hit was found, similar documents, the search as a program.

import { asCurl, asPython } from "./code.js";
import { drawChanged, drawList, drawProgram, drawReasons } from "./drawing.js";
import { Problem, hasKey, search } from "./service.js";

const COMPARED = 100; // documents of each mode, to explain a hit
const SIMILAR = 5;
const READ_CHARACTERS = 1000; // of a document, to find similar ones

/** The body of a search. */
export function bodyOf({ query, mode, filter }) {
  return { query, ...(mode && { mode }), ...(filter && { filter: JSON.parse(filter) }) };
}

/** Pass the answer of a request to `draw`, or write into an element why there is none. */
export async function fill(target, request, draw) {
  try {
    await draw(await request());
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof Problem)) throw error;
    target.textContent = error.words;
  }
}

/** Show a hit's place and score in each mode, and its nearest sentence; `again` searches a changed index. */
export function explain(shown, hit, index, target, again) {
  const modes = index?.modes ?? [];
  const single = modes.filter((mode) => mode !== "hybrid");
  const offset = shown.hits.indexOf(hit);
  const asked = [
    { ...bodyOf(shown), offset, top_k: 1, ...(modes.includes("dense") && { highlight: "sentence" }) },
    ...single.map((mode) => ({ ...bodyOf(shown), mode, top_k: COMPARED, include_text: false })),
  ];
  const request = () => Promise.all(asked.map((body) => search(body)));
  return fill(target, request, (all) => {
    if (all.some((each) => each.index !== shown.index)) return target.replaceChildren(...drawChanged(again));
    const [{ hits }, ...answers] = all;
    const scores = answers.map((answer, position) => {
      const place = answer.hits.findIndex((each) => each.document_id === hit.document_id);
      return [single[position], place < 0 ? null : { place: place + 1, score: answer.hits[place].score }];
    });
    const weight = (shown.mode || modes[0]) === "hybrid" ? index.weight : null;
    const [same] = hits.filter((each) => each.document_id === hit.document_id);
    const [span = [0, 0]] = same?.passage.highlights ?? [];
    const sentence = [...(same?.passage.text ?? "")].slice(...span).join("");
    return target.replaceChildren(drawReasons({ scores, weight, sentence, most: COMPARED }));
  });
}

/** The beginning of a document as a query, "" if there is nothing to search for. */
export function beginningOf({ title, text }) {
  const units = `${title} ${text}`.slice(0, 2 * READ_CHARACTERS);
  return [...units].slice(0, READ_CHARACTERS).join("").replace(/\p{Cc}/gu, " ").trim();
}

/** Show the documents that are nearest in meaning to the beginning of a document. */
export function showSimilar(found, asked, target) {
  const query = beginningOf(found);
  const request = () => search({ query, mode: "dense", top_k: SIMILAR + 1, include_text: false });
  return fill(target, request, ({ hits }) => {
    const others = hits.filter((hit) => hit.document_id !== found.document_id).slice(0, SIMILAR);
    target.replaceChildren(others.length ? drawList(others, asked) : "There are no others.");
  });
}

/** Show a search as programs. */
export function showPrograms(shown, target) {
  const url = new URL("search", document.baseURI).href;
  const ways = Object.entries({ curl: asCurl, Python: asPython });
  target.replaceChildren(
    ...ways.map(([name, written]) => drawProgram(name, written(url, bodyOf(shown), hasKey()))),
  );
}
