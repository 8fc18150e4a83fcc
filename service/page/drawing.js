// Draws the service's answers. Documents may contain any text, so all of it is inserted as text.

import { element, webAddress } from "./elements.js";
import { drawMarkdown, isMarkdown } from "./markdown.js";
import { unitOffset } from "./service.js";
import { codeSpans, isCut, isProse, isSource, snippetOf } from "./text.js";

const STAGE_COLOURS = 10; // of style.css; a stage beyond them takes the first one again
const SHOWN_VALUES = 8; // of a facet; the others are folded
const LONGEST_PATH = 120; // in characters; the document's own page has all of it
const MODES = { hybrid: "meaning and words", dense: "meaning", lexical: "words" };
const number = new Intl.NumberFormat("en-GB");
const languages = new Intl.DisplayNames("en-GB", { type: "language" });

/** "1 document", "2 documents". */
export function counted(count, noun) {
  return `${number.format(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Milliseconds with at most two decimals, fewer for larger numbers: 0.09, 4.9, 37. */
export function rounded(milliseconds) {
  if (milliseconds < 1) return milliseconds.toFixed(2);
  return milliseconds < 10 ? milliseconds.toFixed(1) : number.format(Math.round(milliseconds));
}

/** The address of a query in a mode, with a filter and an order, or of a document found by it. */
export function addressOf({ query, mode, filter, sort }, documentId = null) {
  const parameters = new URLSearchParams();
  if (query) parameters.set("q", query);
  if (mode) parameters.set("mode", mode);
  if (filter) parameters.set("filter", filter);
  if (sort) parameters.set("sort", sort);
  if (documentId !== null) parameters.set("document", documentId);
  return parameters.size ? `?${parameters}` : "./";
}

function titleOf({ title, document_id: id }) {
  return title.trim() || id;
}

/** A link to a document found by a query. */
export function drawLink(hit, asked) {
  const link = element("a", "", titleOf(hit));
  link.href = addressOf(asked, hit.document_id);
  link.dataset.documentId = hit.document_id;
  return link;
}

/** One hit of a list: title, score, passage. */
export function drawHit(hit, asked) {
  const filled = element("span");
  filled.style.inlineSize = `${100 * Math.min(1, Math.max(0, hit.score))}%`;
  const bar = element("span", "bar", filled);
  bar.ariaHidden = "true";
  const why = element("button", "quiet why", "Why this hit", element("span", "spoken", ` ${titleOf(hit)}`));
  why.type = "button";
  why.ariaExpanded = "false";
  return element(
    "li",
    "hit",
    element("h3", "", drawLink(hit, asked)),
    element("p", "score", element("span", "spoken", "Score "), bar, ...drawScore(hit)),
    ...(hit.passage.heading ? [element("p", "heading", hit.passage.heading)] : []),
    isMarkdown(hit)
      ? element("div", "passage rich", ...drawRichPassage(hit.passage))
      : element("p", "passage", ...drawPassage(hit.passage, isSource(hit))),
    element("p", "identity", element("bdi", "", shortened(hit.document_id)), ...drawOrigin(hit.metadata)),
    why,
  );
}

/** A long path without its middle. */
function shortened(path) {
  const characters = [...path];
  if (characters.length <= LONGEST_PATH) return path;
  return `${characters.slice(0, LONGEST_PATH / 3).join("")} … ${characters.slice((-LONGEST_PATH * 2) / 3).join("")}`;
}

/** The score, and what a boost adds to it. */
function drawScore({ score, boosted_score: boosted = score }) {
  const added = boosted - score;
  return added < 0.0005 ? [score.toFixed(3)] : [`${score.toFixed(3)} + ${added.toFixed(3)}`];
}

/** The line above hits that a query of any words might find. */
export function drawWeaker() {
  return element("li", "weaker", "Weaker matches");
}

/** Documents as a list of links with their scores. */
export function drawList(hits, asked) {
  const items = hits.map((hit) => element("li", "", drawLink(hit, asked), ` ${hit.score.toFixed(3)}`));
  return element("ol", "", ...items);
}

/** The address in the field `url`, if it is one of the web. */
function drawOrigin({ url }) {
  const link = drawWebLink(url);
  return link ? [" · ", link] : [];
}

function drawWebLink(address) {
  const link = webAddress(address);
  link?.append(address);
  return link;
}

/** The scores of a hit by meaning and by words, their weights in a hybrid one, and the sentence nearest in meaning. */
export function drawReasons({ scores, weight, sentence, most }) {
  const entries = scores.map(([mode, found]) => [
    `by ${MODES[mode] ?? mode}`,
    found ? `${found.score.toFixed(3)}, place ${found.place}` : `not among the first ${most}`,
  ]);
  if (weight !== null) {
    const [meaning, words] = [weight, 1 - weight].map((share) => number.format(share));
    entries.push(["together", `${meaning} · meaning + ${words} · words, both of the same passage`]);
  }
  return element("dl", "metadata reasons", ...drawEntries([...entries, ["nearest sentence", sentence]]));
}

/** The sentence that the index has changed, and a button that calls `again`. */
export function drawChanged(again) {
  const button = element("button", "", "Search again");
  button.type = "button";
  button.addEventListener("click", again);
  return [element("p", "muted", "The index has changed since this search."), button];
}

/** A suggested title of a list, with what was typed marked. */
export function drawSuggestion({ title, highlights }, place) {
  const parts = [];
  let at = 0;
  for (const [start, end] of highlights.map((span) => span.map((character) => unitOffset(title, character)))) {
    parts.push(title.slice(at, start), element("mark", "", title.slice(start, end)));
    at = end;
  }
  const option = element("li", "", ...parts, title.slice(at));
  Object.assign(option, { id: `suggestion-${place}`, role: "option" });
  return option;
}

/** Examples of queries. */
export function drawExamples(queries) {
  return queries.map((query) => {
    const link = element("a", "", query);
    link.href = addressOf({ query });
    return element("li", "", link);
  });
}

/** A program, with a button to copy it if the browser lets a page do so. */
export function drawProgram(name, program) {
  const whole = element("pre", "", program);
  whole.tabIndex = 0;
  whole.role = "region";
  whole.ariaLabel = name;
  const copy = element("button", "quiet", `Copy as ${name}`);
  copy.type = "button";
  copy.hidden = !navigator.clipboard;
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(program);
    copy.textContent = "Copied";
  });
  return element("div", "", whole, copy);
}

/** Sentences of a passage without blank lines, or lines of source code; highlights are marked, and count code points. */
function drawPassage({ text, start: place, highlights = [] }, source) {
  const marks = highlights.map((span) => span.map((character) => unitOffset(text, character)));
  const code = source ? [[0, text.length]] : codeSpans(text); // lines of it begin in lower case
  let [start, end] = snippetOf(text, marks, place > 0 && !code.length);
  if (source) {
    start = text.lastIndexOf("\n", start) + 1;
    end = (text + "\n").indexOf("\n", end);
  }
  const parts = !source && start > text.search(/\S/) ? ["… "] : [];
  let at = start;
  for (const [from, to] of marks.filter(([from, to]) => from >= start && to <= end)) {
    parts.push(...drawPart(text, at, from, code), element("mark", "", ...drawPart(text, from, to, code)));
    at = to;
  }
  parts.push(...drawPart(text, at, end, code));
  if (end < text.trimEnd().length || (!code.length && isCut(text))) parts.push(" …");
  return parts.map((part) => (typeof part === "string" ? part.replace(/\n\s*\n/g, "\n") : part));
}

/** The best sentences of a passage in Markdown, with its highlights marked; of lists, tables and code, whole lines. */
function drawRichPassage({ text, start: place, highlights = [] }) {
  const marks = highlights.map((span) => span.map((character) => unitOffset(text, character)));
  const [start, end] = snippetOf(text, marks, place > 0);
  const first = isProse(text, start) ? start : text.lastIndexOf("\n", start) + 1;
  const line = text.indexOf("\n", end);
  const stop = isProse(text, end - 1) ? end : line < 0 ? text.length : line;
  const drawn = drawMarkdown(text, first, stop, marks, "p");
  if (text.slice(0, first).trim()) joined(drawn, "prepend", "… ");
  if (stop < text.trimEnd().length || isCut(text)) joined(drawn, "append", " …");
  return drawn;
}

/** Put a sign into the paragraph at an end of what is drawn, or beside a block of another kind. */
function joined(drawn, place, sign) {
  const block = drawn.at(place === "append" ? -1 : 0);
  if (block?.matches("p")) block[place](sign);
  else if (place === "append") drawn.push(sign.trim());
  else drawn.unshift(sign.trim());
}

/** A part of a text, with the spans of code as elements. */
function drawPart(text, from, to, code) {
  const parts = [];
  let at = from;
  for (const [start, end] of code) {
    const [first, last] = [Math.max(start, at), Math.min(end, to)];
    if (first >= last) continue;
    parts.push(text.slice(at, first), element("code", "", text.slice(first, last)));
    at = last;
  }
  return [...parts, text.slice(at, to)].filter((part) => part !== "");
}

/** A choice of modes, the first of which is the default and has no value. */
export function drawModes(modes) {
  return modes.map((mode, position) => {
    const input = element("input");
    Object.assign(input, { type: "radio", name: "mode", id: `mode-${mode}`, value: position ? mode : "" });
    return element("label", "", input, MODES[mode] ?? mode);
  });
}

/** The values of a field as check boxes with their counts. */
export function drawFacet(id, field, values, chosen, open) {
  const boxes = values.map(({ value, count, name = shownValue(field, value) }, position) => {
    const input = element("input");
    const checked = chosen.includes(value);
    Object.assign(input, { type: "checkbox", id: `${id}-${position}`, name: field, checked });
    input.dataset.value = JSON.stringify(value);
    const parts = count === undefined ? [] : [number.format(count), element("span", "spoken", " documents")];
    const label = element("label", "", input, element("span", "value", name));
    label.append(element("span", "amount", ...parts));
    return label;
  });
  const drawn = element("fieldset", "", element("legend", "", named(field)), ...boxes.slice(0, SHOWN_VALUES));
  const rest = boxes.slice(SHOWN_VALUES);
  if (rest.length) {
    const more = element("details", "", element("summary", "", `${rest.length} more of ${named(field)}`), ...rest);
    more.dataset.field = field;
    more.open = open || rest.some((label) => label.firstChild.checked);
    drawn.append(more);
  }
  return drawn;
}

/** A value of a field; a code of a language by the language's name, and a date as the first of its time. */
function shownValue(field, value) {
  const text = String(value).trim().replace(/^>=/, "since ") || "(blank)";
  return field === "language" && /^[a-z]{2,3}$/.test(text) ? languages.of(text) : text;
}

/** The times of the stages that ran, as a stacked bar and in words. */
export function drawStages(stages) {
  const whole = stages.reduce((sum, [, duration]) => sum + duration, 0);
  const bar = element("div", "stacked");
  bar.ariaHidden = "true";
  const names = element("ul", "legend");
  for (const [position, [name, duration]] of stages.entries()) {
    if (!duration) continue;
    const colour = name === "other" ? "stage-other" : `stage-${(position % STAGE_COLOURS) + 1}`;
    const part = element("span", colour);
    part.style.flexGrow = String((100 * duration) / whole);
    bar.append(part);
    const swatch = element("span", `swatch ${colour}`);
    const time = element("span", "figure", rounded(duration), element("span", "spoken", " ms"));
    names.append(element("li", "", swatch, `${name} `, time));
  }
  return [bar, names];
}

/** A document's text, with the passage marked, if there is one; offsets count code points. */
export function drawText(found, passage) {
  const { text } = found;
  const start = passage ? unitOffset(text, passage.start) : 0;
  const end = passage ? start + unitOffset(text.slice(start), passage.end - passage.start) : 0;
  if (isMarkdown(found)) return drawRichText(text, passage ? [[start, end]] : []);
  const code = isSource(found) ? [[0, text.length]] : codeSpans(text);
  if (!passage) return drawPart(text, 0, text.length, code);
  const mark = element("mark", "", ...drawPart(text, start, end, code));
  mark.id = "passage";
  return [...drawPart(text, 0, start, code), mark, ...drawPart(text, end, text.length, code)];
}

function drawRichText(text, marks) {
  const rich = element("div", "rich", drawMarkdown(text, 0, text.length, marks));
  const first = rich.querySelector("mark");
  if (first) first.id = "passage";
  for (const frame of rich.querySelectorAll(".table, pre")) {
    Object.assign(frame, { tabIndex: 0, role: "region", ariaLabel: frame.matches("pre") ? "Code" : "Table" });
  }
  return [rich];
}

/** Where the original of a document is, at the page or the words of a passage. */
export function originalOf({ document_id: id, metadata: { page } }, passage) {
  const address = `files/${encodeURIComponent(id)}`;
  if (Number.isInteger(page)) return `${address}#page=${page}`;
  const words = passage?.text?.trim().split(/\s+/).slice(0, 6).join(" ");
  return words ? `${address}#:~:text=${encodeURIComponent(words).replaceAll("-", "%2D")}` : address;
}

/** How far the better vectors of an index are. */
export function progressOf({ passages, of }) {
  const share = of ? `${number.format(passages)} of ${counted(of, "passage")}` : "its passages are being counted";
  return `The index can be searched, and is becoming better: ${share}.`;
}

/** Where in its document a passage stands, in words. */
export function whereabouts(text, passage) {
  if (!passage) return "";
  const length = number.format([...text].length);
  const [start, end] = [number.format(passage.start + 1), number.format(passage.end)];
  return `The passage found: characters ${start} to ${end} of ${length}`;
}

/** Names and values; null and empty ones are left out. */
function drawEntries(entries, shown = plain) {
  return entries
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) =>
      element("div", "", element("dt", "", named(name.replace(/^num_/, ""))), element("dd", "", shown(value, name))),
    );
}

/** The id and the metadata of a document, with numbers as they are. */
export function drawMetadata({ document_id: id, metadata }) {
  const link = (value, name) => (name === "url" && drawWebLink(value)) || plain(value);
  return drawEntries(Object.entries({ id, ...metadata }), link);
}

function named(field) {
  return field.replaceAll("_", " ");
}

function plain(value) {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function grouped(value) {
  return Number.isInteger(value) ? number.format(value) : plain(value);
}

/** The answer of `/info`, for the drawer. */
export function drawInfo(info) {
  const { encoder, index, limits, versions, ...service } = info;
  const { details: encoderDetails, ...encoderFields } = encoder;
  const { details: indexDetails, recall, examples, ...indexFields } = index;
  const sections = [
    ["Index", Object.entries(indexFields)],
    ["Recall against exact search", Object.entries(recall ?? {})],
    ["Query encoder", Object.entries(encoderFields)],
    ["Service", Object.entries(service)],
    ["Limits of a request", Object.entries(limits)],
    ["Versions", Object.entries(versions)],
  ];
  const drawn = sections
    .filter(([, entries]) => entries.length)
    .flatMap(([title, entries]) => [
      element("h3", "", title),
      element("dl", "metadata", ...drawEntries(entries, grouped)),
    ]);
  const whole = JSON.stringify({ index: indexDetails, encoder: encoderDetails }, null, 2);
  const details = element("details", "", element("summary", "", "Manifests"), element("pre", "", whole));
  return [...drawn, details];
}
