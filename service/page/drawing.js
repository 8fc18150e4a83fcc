// Draws the service's answers. Documents may contain any text, so all of it is inserted as text.

import { unitOffset } from "./service.js";

const STAGE_COLOURS = 10; // of style.css; a stage beyond them takes the first one again
const SHOWN_VALUES = 8; // of a facet; the others are folded
const MODES = { hybrid: "meaning and words", dense: "meaning", lexical: "words" };
const number = new Intl.NumberFormat("en-GB");

/** An element with a class and its children: strings become text, never markup. */
function element(name, className = "", ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

/** "1 document", "2 documents". */
export function counted(count, noun) {
  return `${number.format(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Milliseconds with at most two decimals, fewer for larger numbers: 0.09, 4.9, 37. */
export function rounded(milliseconds) {
  if (milliseconds < 1) return milliseconds.toFixed(2);
  return milliseconds < 10 ? milliseconds.toFixed(1) : number.format(Math.round(milliseconds));
}

/** The address of a query in a mode and with a filter, or of a document found by it. */
export function addressOf({ query, mode, filter }, documentId = null) {
  const parameters = new URLSearchParams();
  if (query) parameters.set("q", query);
  if (mode) parameters.set("mode", mode);
  if (filter) parameters.set("filter", filter);
  if (documentId !== null) parameters.set("document", documentId);
  return parameters.size ? `?${parameters}` : "./";
}

/** One hit of a list: title, score, passage. */
export function drawHit(hit, asked) {
  const link = element("a", "", hit.title.trim() || hit.document_id);
  link.href = addressOf(asked, hit.document_id);
  link.dataset.documentId = hit.document_id;
  const filled = element("span");
  filled.style.inlineSize = `${100 * Math.min(1, Math.max(0, hit.score))}%`;
  const bar = element("span", "bar", filled);
  bar.ariaHidden = "true";
  return element(
    "li",
    "hit",
    element("h3", "", link),
    element("p", "score", element("span", "spoken", "Score "), bar, hit.score.toFixed(3)),
    ...(hit.passage.heading ? [element("p", "heading", hit.passage.heading)] : []),
    element("p", "passage", ...drawPassage(hit.passage)),
    element("p", "identity", hit.document_id),
  );
}

/** The text of a passage without blank lines, with its highlights marked; these count code points. */
function drawPassage({ text, highlights = [] }) {
  const characters = [...text];
  const parts = [];
  let at = 0;
  const part = (end) => {
    const between = characters.slice(at, end).join("").replace(/\n\s*\n/g, "\n");
    at = end;
    return between;
  };
  for (const [start, end] of highlights) parts.push(part(start), element("mark", "", part(end)));
  parts.push(part(characters.length));
  parts[0] = parts[0].trimStart();
  parts.push(parts.pop().trimEnd());
  return parts;
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
  const boxes = values.map(({ value, count }, position) => {
    const input = element("input");
    const checked = chosen.includes(value);
    Object.assign(input, { type: "checkbox", id: `${id}-${position}`, name: field, checked });
    input.dataset.value = JSON.stringify(value);
    const parts = count === undefined ? [] : [number.format(count), element("span", "spoken", " documents")];
    const label = element("label", "", input, element("span", "value", String(value).trim() || "(blank)"));
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
export function drawText(text, passage) {
  if (!passage) return [text];
  const start = unitOffset(text, passage.start);
  const end = start + unitOffset(text.slice(start), passage.end - passage.start);
  const mark = element("mark", "", text.slice(start, end));
  mark.id = "passage";
  return [text.slice(0, start), mark, text.slice(end)];
}

/** Where in its document a passage stands, in words. */
export function whereabouts(text, passage) {
  if (!passage) return "";
  const length = number.format([...text].length);
  const [start, end] = [number.format(passage.start + 1), number.format(passage.end)];
  return `The passage found: characters ${start} to ${end} of ${length}`;
}

/** Names and values, nested ones as JSON; null and empty ones are left out. */
export function drawEntries(entries) {
  return entries
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) =>
      element("div", "", element("dt", "", named(name.replace(/^num_/, ""))), element("dd", "", plain(value))),
    );
}

function named(field) {
  return field.replaceAll("_", " ");
}

function plain(value) {
  if (typeof value === "number") return Number.isInteger(value) ? number.format(value) : String(value);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** The answer of `/info`, for the drawer. */
export function drawInfo(info) {
  const { encoder, index, limits, versions, ...service } = info;
  const { details: encoderDetails, ...encoderFields } = encoder;
  const { details: indexDetails, recall, ...indexFields } = index;
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
      element("dl", "metadata", ...drawEntries(entries)),
    ]);
  const whole = JSON.stringify({ index: indexDetails, encoder: encoderDetails }, null, 2);
  const details = element("details", "", element("summary", "", "Manifests"), element("pre", "", whole));
  return [...drawn, details];
}
