// The page at /judge: grades by keys, each kept at once, for whoever has an admin key.

import { element } from "./elements.js";
import { Problem, fetchAsAdmin, fill, keep, kept, unitOffset } from "./service.js";

const KEY = "swiftlet.admin-key";
const NAME = "swiftlet.judge";
const NO_FOLDER = "This service has no judgements. Set SWIFTLET_JUDGEMENTS to a folder, and start it again.";

const $ = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en-GB");

let tasks = []; // each a document with its query, in order
let current = null;
let done = []; // what undo takes back, the latest last
const unkept = []; // judgements that the service has not answered yet
let isSending = false;

$("begin").addEventListener("submit", (event) => {
  event.preventDefault();
  keep(KEY, $("key").value);
  keep(NAME, $("judge").value);
  $("key").value = "";
  begin();
});

async function begin() {
  $("state").textContent = "Reading what there is to judge";
  await fill($("state"), request, ({ judge, queries, left_out: leftOut }) => {
    keep(NAME, judge);
    tasks = queries.flatMap(({ documents, ...query }) => documents.map((each) => ({ ...query, ...each })));
    $("begin").hidden = true;
    $("stop").hidden = false;
    $("state").textContent = leftOut ? `${number.format(leftOut)} documents are left out: the index lacks them now.` : "";
    $("controls").hidden = false;
    next();
  });
}

async function request() {
  try {
    return await fetchAsAdmin(`judge/pool?${new URLSearchParams({ judge: kept(NAME) })}`, kept(KEY));
  } catch (error) {
    if (error instanceof Problem && error.status === 404) error.words = NO_FOLDER;
    throw error;
  }
}

/** Show the first document without a grade. */
function next() {
  show(tasks.find((task) => task.grade === null && !task.isSkipped) ?? null);
}

function show(task) {
  current = task;
  const [judged, skipped] = [tasks.filter(({ grade }) => grade !== null), tasks.filter((each) => each.isSkipped)];
  $("progress-words").textContent = `${kept(NAME)}: ${number.format(judged.length)} of ${number.format(tasks.length)} judged`;
  $("progress").value = tasks.length ? judged.length / tasks.length : 0;
  $("task").hidden = $("grades").hidden = $("skip").hidden = !task;
  $("undo").disabled = !done.length;
  $("again").hidden = Boolean(task) || !skipped.length;
  if (!task) {
    $("state").textContent = skipped.length ? `${number.format(skipped.length)} are left, which you skipped.` : "All is judged. Thank you!";
    (skipped.length ? $("again") : $("undo")).focus();
    return;
  }
  $("query").textContent = task.query;
  $("title").textContent = task.title.trim() || task.document_id;
  $("heading").textContent = task.heading;
  $("passage").replaceChildren(...drawMarked(task.passage, task.highlights));
  $("identity").textContent = task.title.trim() ? task.document_id : "";
  // So a screen reader says the title, and the next passage is read from its beginning.
  $("document").focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function drawMarked(text, highlights) {
  const parts = [];
  let at = 0;
  for (const [start, end] of highlights.map((span) => span.map((character) => unitOffset(text, character)))) {
    parts.push(text.slice(at, start), element("mark", "", text.slice(start, end)));
    at = end;
  }
  return [...parts, text.slice(at)];
}

function judge(grade) {
  if (!current) return;
  $("state").textContent = "";
  done.push(current);
  current.grade = grade;
  send(current);
  next();
}

function skip() {
  if (!current) return;
  $("state").textContent = "";
  done.push(current);
  current.isSkipped = true;
  next();
}

function undo() {
  const task = done.pop();
  if (!task) return;
  $("state").textContent = "Taken back.";
  task.isSkipped = false;
  if (task.grade !== null) {
    task.grade = null;
    send(task);
  }
  show(task);
}

function goThroughSkipped() {
  $("state").textContent = "";
  for (const task of tasks) task.isSkipped = false;
  done = done.filter(({ grade }) => grade !== null);
  next();
}

function send({ query_id, document_id, grade }) {
  unkept.push({ query_id, document_id, grade });
  flush();
}

/** Send what is not kept yet, in its order; after a failure, the next grade or a button tries again. */
async function flush() {
  if (isSending) return;
  isSending = true;
  try {
    while (unkept.length) {
      const judgement = { judge: kept(NAME), ...unkept[0] };
      await fetchAsAdmin("judge/judgements", kept(KEY), JSON.stringify(judgement));
      unkept.shift();
    }
    $("unkept").replaceChildren();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    const again = element("button", "", "Try again");
    again.type = "button";
    again.addEventListener("click", flush);
    const grades = unkept.length === 1 ? "1 grade is" : `${number.format(unkept.length)} grades are`;
    $("unkept").replaceChildren(`${grades} not kept yet: leave this page open. ${error.words} `, again);
  } finally {
    isSending = false;
  }
}

$("grades").addEventListener("click", ({ target }) => {
  const button = target.closest("button");
  if (button) judge(Number(button.dataset.grade));
});
$("undo").addEventListener("click", undo);
$("skip").addEventListener("click", skip);
$("again").addEventListener("click", goThroughSkipped);
$("stop").addEventListener("click", () => {
  for (const name of [KEY, NAME]) keep(name, "");
  location.reload();
});

document.addEventListener("keydown", (event) => {
  const isOther = event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input");
  if (isOther || $("controls").hidden) return;
  const key = event.key.toLowerCase();
  if (/^[1-4]$/.test(key)) judge(Number(key) - 1);
  else if (key === "u" || key === "backspace") undo();
  else if (key === "s") skip();
  else return;
  event.preventDefault();
});

window.addEventListener("beforeunload", (event) => {
  if (unkept.length) event.preventDefault();
});

$("judge").value = kept(NAME) ?? "";
if (kept(KEY) && kept(NAME)) begin();
