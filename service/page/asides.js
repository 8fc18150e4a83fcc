// What is asked for besides the hits: why a hit was found, similar documents, the search as a program, which hits
// are weak, the original of a document, how far the index is.

import { asCurl, asPython } from "./code.js";
import { drawChanged, drawList, drawProgram, drawReasons, drawWeaker, originalOf, progressOf } from "./drawing.js";
import { fetchFile, fetchInfo, fetchWeak, fill, hasKey, search } from "./service.js";

const COMPARED = 100; // documents of each mode, to explain a hit
const SIMILAR = 5;
const READ_CHARACTERS = 1000; // of a document, to find similar ones
const PROGRESS_MS = 3000;

/** The body of a search. */
export function bodyOf({ query, mode, filter, sort }) {
  return { query, ...(mode && { mode }), ...(filter && { filter: JSON.parse(filter) }), ...(sort && { sort }) };
}

/** Show a hit's place and score in each mode, and its nearest sentence; `again` searches a changed index. */
export function explain(shown, hit, index, target, again) {
  const modes = index?.modes ?? [];
  const single = modes.filter((mode) => mode !== "hybrid");
  const offset = shown.hits.indexOf(hit);
  const asked = [
    { ...bodyOf(shown), offset, top_k: 1, ...(modes.includes("dense") && { highlight: "sentence" }) },
    ...single.map((mode) => ({ ...bodyOf({ ...shown, sort: "" }), mode, top_k: COMPARED, include_text: false })),
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

/** The scores below which hits are weak, by what `/info` said of an index. */
const lines = new WeakMap();
let latest = null;

/** Draw a line above those hits that are as weak as hits of random words, if only such hits follow. */
export async function showWeaker(shown, described) {
  latest = shown;
  const index = await described;
  if (!index || shown.sort) return;
  if (!lines.has(index)) lines.set(index, fetchWeak().catch(() => ({})));
  const line = (await lines.get(index))[shown.mode || index.modes[0]];
  if (line === undefined || latest !== shown) return;
  const list = document.getElementById("hits");
  list.querySelector(".weaker")?.remove();
  const first = 1 + shown.hits.findLastIndex(({ score }) => score >= line);
  if (first < shown.hits.length) list.children[first].before(drawWeaker());
}

const original = document.getElementById("original");

/** Link to the original of a document, if the service has it. */
export async function showOriginal(found, passage, described) {
  original.hidden = true;
  original.href = originalOf(found, passage);
  original.dataset.documentId = found.document_id;
  original.hidden = !(await described)?.hasFiles;
}

// A link sends no key, so the file is fetched with it. It is of a type that runs nothing.
original.addEventListener("click", async (event) => {
  if (!hasKey()) return;
  event.preventDefault();
  const { hash } = new URL(original.href);
  const problem = document.getElementById("remark");
  problem.textContent = "";
  await fill(problem, () => fetchFile(original.dataset.documentId), (file) =>
    window.open(URL.createObjectURL(file) + hash, "_blank", "noopener"),
  );
  problem.hidden = !problem.textContent;
});

let waiting = 0;

/** Say how far the index is while `swiftlet up` makes it better; a hidden page does not ask. */
export function showProgress({ refining }) {
  clearTimeout(waiting);
  const line = document.getElementById("refining");
  line.hidden = !refining;
  line.textContent = refining ? progressOf(refining) : "";
  if (!refining) return;
  waiting = setTimeout(async () => {
    showProgress(document.hidden ? { refining } : await fetchInfo().catch(() => ({ refining })));
  }, PROGRESS_MS);
}
