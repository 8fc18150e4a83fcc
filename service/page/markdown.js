// Draws Markdown as elements. All text is inserted as text, and offsets stay those of the source, so that
// its parts can be marked. They count UTF-16 units.

import { element, webAddress } from "./elements.js";

const FENCE = /^\s{0,3}(```+|~~~+)/;
const HEADING = /^\s{0,3}(#{1,6})[ \t]+/;
const UNDERLINE = /^\s{0,3}(?:=+|-{3,})\s*$/;
const RULE = /^\s{0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const ITEM = /^(\s*)([-*+•]|\d{1,9}[.)])[ \t]+/;
const QUOTE = /^\s{0,3}>[ \t]?/;
const DELIMITERS = /^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;
const ROW = /^\s*\|.*\|\s*$/;
const DEEPEST = 3;
const LONGEST = 20_000; // of a line with emphases; a longer one is no prose
// Bounded, so that no text takes longer than its length. Groups: code, link, bold, italic, escape, address.
const INLINE =
  /(`{1,3})(?!`)(.{1,500}?)\1|!?\[([^[\]\n]{0,500})\]\(([^()\s]{0,2000})(?:[ \t]"[^"\n]{0,200}")?\)|(\*\*|(?<!\w)__)(?=\S)([^\n]{1,500}?\S|\S)\5|(\*|(?<!\w)_)(?=[^\s*_])([^*_\n]{0,500}[^\s*_])\7(?!\w)|\\([!-/:-@[-`{-~])|<(https?:\/\/[^<>\s]{1,2000})>/dgs;
// Kinds of files that are read as Markdown; of others, the suffix tells.
const KINDS = new Set(["markdown", "html", "word", "slides", "sheet", "book", "notebook", "org", "latex", "mail"]);
const SUFFIX = /\.(?:md|markdown|html?|xhtml|docx)(?:#.*)?$/i;

/** Whether a document was read from a file as Markdown, by the kind of the file or the suffix of its id. */
export function isMarkdown({ document_id: id, metadata: { kind, path } }) {
  return typeof path === "string" ? KINDS.has(kind) : SUFFIX.test(id);
}

/** The elements of a part of a text, from one place to another; spans of it, in order, are marked. */
export function drawMarkdown(text, from, to, marks, heading = "h3") {
  const lines = linesOf(text, from, to);
  const draw = { text, marks, heading };
  const drawn = [];
  let at = 0;
  while (at < lines.length) {
    const [block, next] = blockAt(draw, lines, at);
    if (block) drawn.push(block);
    at = next;
  }
  return drawn;
}

/** Where each line begins and ends, with its text. */
function linesOf(text, from, to) {
  const lines = [];
  let at = from;
  for (const line of text.slice(from, to).split("\n")) {
    lines.push({ line, start: at, end: at + line.length });
    at += line.length + 1;
  }
  return lines;
}

/** The block that begins at a line, and the number of the line after it. */
function blockAt(draw, lines, at) {
  const { line, start, end } = lines[at];
  if (!line.trim()) return [null, at + 1];
  if (FENCE.test(line)) return fenceAt(draw, lines, at);
  const heading = HEADING.exec(line);
  if (heading) {
    const tail = /[ \t]+#+[ \t]*$/.exec(line);
    const drawn = inline(draw, start + heading[0].length, tail ? start + tail.index : end);
    return [element(draw.heading, `level-${heading[1].length}`, drawn), at + 1];
  }
  if (RULE.test(line)) return [element("hr"), at + 1];
  if (isTable(lines, at)) return tableAt(draw, lines, at);
  if (ITEM.test(line)) return listAt(draw, lines, at);
  if (/^(?: {4}|\t)/.test(line)) {
    const stop = endOf(lines, at, (each) => /^(?: {4}|\t)/.test(each.line));
    return [element("pre", "", element("code", "", leaf(draw, start, lines[stop - 1].end))), stop];
  }
  const quoted = QUOTE.test(line);
  const stop = endOf(lines, at, (each, number) => continues(lines, number, quoted));
  const parts = lines.slice(at, stop).flatMap((each, number) => [
    ...(number ? ["\n"] : []),
    ...inline(draw, each.start + (QUOTE.exec(each.line)?.[0].length ?? 0), each.end),
  ]);
  if (stop === at + 1 && UNDERLINE.test(lines[stop]?.line ?? "")) {
    return [element(draw.heading, lines[stop].line.includes("=") ? "level-1" : "level-2", parts), stop + 1];
  }
  return [quoted ? element("blockquote", "", parts) : element("p", "", parts), stop];
}

/** The number of the first line after one for which `belongs` does not hold. */
function endOf(lines, at, belongs) {
  let stop = at + 1;
  while (stop < lines.length && belongs(lines[stop], stop)) stop += 1;
  return stop;
}

function continues(lines, number, quoted) {
  const { line } = lines[number];
  if (!line.trim() || QUOTE.test(line) !== quoted) return false;
  return ![FENCE, HEADING, RULE, UNDERLINE, ITEM].some((form) => form.test(line)) && !isTable(lines, number);
}

function fenceAt(draw, lines, at) {
  const [, fence] = FENCE.exec(lines[at].line);
  const stop = endOf(lines, at, ({ line }) => !line.trim().startsWith(fence));
  const inside = lines.slice(at + 1, stop);
  const drawn = inside.length ? leaf(draw, inside[0].start, inside.at(-1).end) : [];
  return [element("pre", "", element("code", "", drawn)), stop + 1];
}

// A passage may begin within a table, even within a row, so rows between bars are one without a head, too.
function isTable(lines, at) {
  const { line } = lines[at];
  const next = lines[at + 1]?.line ?? "";
  if (ROW.test(line) || (/\|\s*$/.test(line) && ROW.test(next))) return true;
  return line.includes("|") && next.includes("|") && DELIMITERS.test(next);
}

function tableAt(draw, lines, at) {
  const stop = endOf(lines, at, ({ line }) => line.includes("|"));
  const rows = lines.slice(at, stop);
  const hasHead = rows.length > 1 && DELIMITERS.test(rows[1].line);
  const body = rows.filter(({ line }) => !DELIMITERS.test(line)).map((row, number) => {
    const name = hasHead && !number ? "th" : "td";
    return element("tr", "", cellsOf(row).map((cell) => element(name, "", inline(draw, ...cell))));
  });
  const table = element("table", "", (hasHead ? [element("thead", "", body.shift())] : []), element("tbody", "", body));
  return [element("div", "table", table), stop];
}

/** Where the cells of a row begin and end, without the blanks around them. */
function cellsOf({ line, start }) {
  const bars = [...line.matchAll(/(?<!\\)\|/g)].map((bar) => bar.index);
  const edges = [-1, ...bars, line.length];
  const cells = edges.slice(1).map((end, number) => [edges[number] + 1, end]);
  if (!line.slice(...cells[0]).trim()) cells.shift();
  if (cells.length && !line.slice(...cells.at(-1)).trim()) cells.pop();
  return cells.map(([first, last]) => {
    const cell = line.slice(first, last);
    const blank = cell.length - cell.trimStart().length;
    return [start + first + blank, start + first + Math.max(blank, cell.trimEnd().length)];
  });
}

function listAt(draw, lines, at) {
  const ordered = /\d/.test(ITEM.exec(lines[at].line)[2]);
  const list = element(ordered ? "ol" : "ul");
  if (ordered) list.start = Number.parseInt(ITEM.exec(lines[at].line)[2], 10);
  let next = at;
  while (next < lines.length) {
    const found = ITEM.exec(lines[next].line);
    if (!found || /\d/.test(found[2]) !== ordered || RULE.test(lines[next].line)) break;
    const stop = endOf(lines, next, (each, number) => continues(lines, number, false));
    const parts = lines.slice(next, stop).flatMap(({ start, end }, number) =>
      number ? ["\n", ...inline(draw, start, end)] : inline(draw, start + found[0].length, end),
    );
    const depth = Math.min(DEEPEST, Math.floor(found[1].replaceAll("\t", "    ").length / 2));
    list.append(element("li", depth ? `deep-${depth}` : "", parts));
    next = stop;
  }
  return [list, next];
}

/** A line with its code, links and emphases. */
function inline(draw, from, to) {
  const drawn = [];
  let at = from;
  if (to - from > LONGEST) return leaf(draw, from, to);
  for (const found of draw.text.slice(from, to).matchAll(INLINE)) {
    const place = (group) => found.indices[group].map((offset) => from + offset);
    drawn.push(...leaf(draw, at, from + found.index));
    if (found[2] !== undefined) drawn.push(element("code", "", leaf(draw, ...place(2))));
    else if (found[3] !== undefined) drawn.push(...link(found[4], inline(draw, ...place(3))));
    else if (found[6] !== undefined) drawn.push(element("strong", "", inline(draw, ...place(6))));
    else if (found[8] !== undefined) drawn.push(element("em", "", inline(draw, ...place(8))));
    else if (found[9] !== undefined) drawn.push(...leaf(draw, ...place(9)));
    else drawn.push(...link(found[10], leaf(draw, ...place(10))));
    at = from + found.index + found[0].length;
  }
  return [...drawn, ...leaf(draw, at, to)];
}

/** A link if the address is one of the web, else what it shows. Pictures are never loaded: they have a text. */
function link(address, shown) {
  const anchor = webAddress(address);
  if (!anchor) return shown;
  anchor.append(...shown);
  return [anchor];
}

/** A part of the text, with its marks. */
function leaf({ text, marks }, from, to) {
  const parts = [];
  let at = from;
  for (const [start, end] of marks) {
    const [first, last] = [Math.max(start, at), Math.min(end, to)];
    if (first >= last) continue;
    parts.push(text.slice(at, first), element("mark", "", text.slice(first, last)));
    at = last;
  }
  return [...parts, text.slice(at, to)].filter((part) => part !== "");
}
