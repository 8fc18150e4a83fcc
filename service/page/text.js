// Finds code and sentences in texts. Offsets count UTF-16 units.

const SNIPPET = 320;
// As the service splits sentences for `highlight`.
const SENTENCE = /\S.*?(?:[.!?…](?=\s|$)|[。！？]|(?=\n\s*\n)|$)/gs;
const WITHIN = /^\s*\p{Ll}/u; // a passage that was cut in a sentence
const CUT = /[\p{L}\p{N},]\s*$/u; // the end of one, unless it is short: then its part of a document ends there
const SHORTEST_CUT = 200;
const BLOCK = /^(?:\t| {4}|\s*(?:[-+*•]\s|[>#|]|\d{1,9}[.)]\s|```|~~~)|.*\|\s*$)/;
const ROW = /^[^|\n]+\|[^\n]*\|[ \t]*\n(?=\s*\|)/; // as WITHIN, in a row of a table
const FENCE = /^\s*(?:```|~~~)/;
const PROMPT = /^\s*>>>/;
const CODE = /^(?:\t| {4}).*[=({;]|^[\w.]+\(.*\)$|^\s*[|+].*[|+]$/;
// Kinds of files with source code or settings.
const SOURCES = new Set(
  ("python javascript typescript java kotlin scala groovy c c++ c# objective-c go rust swift zig dart php ruby perl " +
    "lua r julia elixir erlang haskell ocaml f# clojure lisp shell powershell sql protobuf vue css terraform settings " +
    "cmake log fortran pascal graphql").split(" "),
);

/** Whether a document was read from a file with source code. */
export function isSource({ metadata: { kind, path } }) {
  return typeof path === "string" && SOURCES.has(kind);
}

/** Where lines of code are: between fences, from a prompt to a blank line, indented, a call, a drawn table. */
export function codeSpans(text) {
  const spans = [];
  let [at, fenced, session] = [0, false, false];
  for (const line of text.split("\n")) {
    const fence = FENCE.test(line);
    session = PROMPT.test(line) || (session && line.trim() !== "");
    if (fenced || fence || session || CODE.test(line)) {
      const last = spans.at(-1);
      if (last?.[1] === at - 1) last[1] = at + line.length;
      else spans.push([at, at + line.length]);
    }
    if (fence) fenced = !fenced;
    at += line.length + 1;
  }
  return spans;
}

/** Whether a line of Markdown is one of a paragraph, by a place in it. */
export function isProse(text, place) {
  const [line] = text.slice(text.lastIndexOf("\n", place) + 1).split("\n", 1);
  return !BLOCK.test(line) && !codeSpans(text).some(([start, end]) => place >= start && place < end);
}

/** Whether a passage ends within a sentence. */
export function isCut(text) {
  return text.length >= SHORTEST_CUT && CUT.test(text) && isProse(text, text.trimEnd().length - 1);
}

/** The part of a passage to show: whole sentences, from where most of the marked words are near.
 *
 * Where a passage begins inside its document (`isInside`), the rest of a sentence or of a row of a table is left out,
 * unless it has marks or nothing follows.
 */
export function snippetOf(text, marks, isInside = false) {
  const sentences = [...text.matchAll(SENTENCE)].map((found) => [found.index, found.index + found[0].length]);
  if (!sentences.length) return [0, 0];
  const [, whole] = sentences[0];
  const row = ROW.exec(text)?.[0].length ?? 0;
  const rest = row || (WITHIN.test(text) && sentences.length > 1 ? whole : 0);
  if (isInside && !marks.some(([mark]) => mark < rest)) {
    if (rest < whole) sentences[0][0] = rest;
    else sentences.shift();
  }
  const near = ([start]) => marks.filter(([mark]) => mark >= start && mark < start + SNIPPET).length;
  const best = sentences.reduce((one, other) => (near(other) > near(one) ? other : one));
  const [start, end] = best;
  const last = sentences.findLast(([, stop]) => stop > end && stop <= start + SNIPPET);
  return [start, last?.[1] ?? end];
}
