// The search page: requests, views, and the address that reflects both.

import { offerToAdd } from "./adding.js";
import { beginningOf, bodyOf, explain, showOriginal, showPrograms, showProgress, showSimilar, showWeaker } from "./asides.js";
import {
  addressOf,
  counted,
  drawExamples,
  drawHit,
  drawInfo,
  drawMetadata,
  drawModes,
  drawStages,
  drawText,
  rounded,
  whereabouts,
} from "./drawing.js";
import * as choice from "./facets.js";
import { Problem, fetchDocument, fetchInfo, fill, keepKey, reportOpened, search } from "./service.js";
import "./suggestions.js";

const TYPING_PAUSE_MS = 150;
const SLOW_AFTER_MS = 400;
const READ_AFTER_MS = 2000;
const MOST_RETRIES = 5;

// Statuses for which the same request would fail again.
const FINAL = new Set([400, 401, 403, 404, 405, 413, 422]);

const $ = (id) => document.getElementById(id);
const box = $("query");
const views = ["home", "notice", "results", "document"].map($);

/** What `/info` says of the index; null if there is no answer. */
let described;

/** What was asked, its index, its hits so far and when they were shown; null until there is an answer. */
let shown = null;
/** The open document; null if there is none. */
let opened = null;
/** Whether the query of the address was entered or followed, and so keeps its history entry. */
let entered = true;
let underway = new AbortController();
let typing = 0;
let retry = 0;
let retries = 0;
let again = () => {};
let placeInResults = { scroll: 0, documentId: null };

// What sticks below the box needs its height, which depends on the width.
new ResizeObserver(([{ target }]) => {
  document.documentElement.style.setProperty("--top", `${target.offsetHeight}px`);
}).observe($("search"));

// What is on the screen

function show(name) {
  for (const view of views) view.hidden = view.id !== name;
  choice.showFacets(name === "results" || (name === "notice" && Boolean(choice.chosenFilter())));
}

function announce(sentence) {
  $("announcement").textContent = sentence;
}

/** Show a sentence above the results until something else is asked. */
function remark(sentence) {
  $("remark").hidden = !sentence;
  $("remark").textContent = sentence;
}

function setSlow(slow) {
  $("slow").hidden = !slow;
  $("progress").hidden = !slow;
  document.querySelector("main").ariaBusy = String(slow);
  if (slow) announce("Still searching");
}

function showHome() {
  shown = null;
  document.title = "Swiftlet";
  announce("");
  show("home");
}

function showHits(asked, answer) {
  placeInResults = { scroll: 0, documentId: null };
  const { hits, index, next } = answer;
  shown = { ...asked, index, hits, offset: hits.length, at: performance.now() };
  document.title = `${asked.query} · Swiftlet`;
  const time = rounded(answer.milliseconds);
  const found = amount(hits.length, next);
  $("count").textContent = `${found} in ${time} ms`;
  $("stages").replaceChildren(...drawStages(answer.stages));
  $("hits").replaceChildren(...hits.map((hit) => drawHit(hit, asked)));
  showWeaker(shown, described);
  showMore(next);
  $("code").open = false;
  announce(`${found} found in ${time} milliseconds`);
  if (hits.length) show("results");
  else showEmpty();
}

function amount(count, next) {
  return `${next ? "The first " : ""}${counted(count, "document")}`;
}

function showMore(next) {
  $("more").hidden = !next;
  $("more-problem").textContent = "";
}

// Other searches than lexical ones find documents for every query, unless the index is empty.
function showEmpty() {
  const { mode, filter } = shown;
  shown = null;
  let detail = filter ? "No document has the chosen values." : "This index holds no documents yet.";
  if (mode === "lexical") detail = `No document ${filter ? "with the chosen values " : ""}shares a word with the query.`;
  showNotice({ heading: "Nothing found", detail });
}

function showDocument(found, passage) {
  opened = found;
  const title = found.title.trim() || found.document_id;
  document.title = `${title} · Swiftlet`;
  $("back").href = addressOf(address());
  $("document-title").textContent = title;
  $("document-where").textContent = whereabouts(found.text, passage);
  $("document-metadata").replaceChildren(...drawMetadata(found));
  $("document-text").replaceChildren(...drawText(found, passage));
  showOriginal(found, passage, described);
  $("to-passage").hidden = !passage;
  $("similar").open = false;
  $("similar").hidden = !beginningOf(found);
  $("similar-content").replaceChildren();
  announce("");
  show("document");
  $("document-title").focus({ preventScroll: true });
  if (passage) showPassage();
  else window.scrollTo(0, 0);
}

function showPassage() {
  $("passage")?.scrollIntoView({ block: "center" });
}

function showResults() {
  document.title = `${shown.query} · Swiftlet`;
  show("results");
}

/** Show the results again, scrolled as before the document was opened. */
function returnToResults() {
  showResults();
  window.scrollTo(0, placeInResults.scroll);
  hitLinks()
    .find((link) => link.dataset.documentId === placeInResults.documentId)
    ?.focus({ preventScroll: true });
}

function showProblem(problem) {
  const { status, heading, sentence: detail, requestId } = problem;
  // Each wait is twice as long, so that the page does not add to the overload.
  const wait = problem.retryAfterSeconds;
  const seconds = wait === null || retries === MOST_RETRIES ? null : wait * 2 ** retries;
  const asksForKey = status === 401 || status === 403;
  shown = null;
  showNotice({ heading, detail, requestId, asksForKey, mayRetry: !FINAL.has(status) });
  if (asksForKey) $("key").focus();
  announce(seconds === null ? heading : `${heading}. Trying again in ${counted(seconds, "second")}`);
  if (seconds !== null) countDown(seconds);
}

function showNotice({ heading, detail, requestId = "", asksForKey = false, mayRetry = false }) {
  $("notice-title").textContent = heading;
  $("notice-detail").textContent = detail;
  $("notice-request").hidden = !requestId;
  $("notice-request").querySelector("code").textContent = requestId;
  $("notice-back").hidden = address().documentId === null;
  $("notice-back").href = addressOf(address());
  $("key-form").hidden = !asksForKey;
  $("again").hidden = !mayRetry;
  $("again").textContent = "Try again";
  $("countdown").textContent = "";
  show("notice");
}

function countDown(seconds) {
  $("again").textContent = "Try now";
  $("countdown").textContent = `Trying again in ${counted(seconds, "second")}`;
  retry = setTimeout(() => {
    // A hidden page does not retry, and adds no load.
    if (seconds > 1 || document.hidden) countDown(Math.max(1, seconds - 1));
    else {
      retries += 1;
      again();
    }
  }, 1000);
}

// Requests

/** Abort the request under way; its answer is not shown. */
function stop() {
  underway.abort();
  clearTimeout(typing);
  clearTimeout(retry);
  setSlow(false);
}

/** Send `request(signal)`, and pass its answer to `onAnswer`; `again` then repeats the request. */
async function ask(request, onAnswer) {
  stop();
  again = () => ask(request, onAnswer);
  underway = new AbortController();
  const { signal } = underway;
  const slow = setTimeout(setSlow, SLOW_AFTER_MS, true);
  signal.addEventListener("abort", () => clearTimeout(slow));
  let answer;
  let problem = null;
  try {
    answer = await request(signal);
  } catch (error) {
    if (!signal.aborted && !(error instanceof Problem)) throw error;
    problem = error;
  }
  if (signal.aborted) return;
  clearTimeout(slow);
  setSlow(false);
  if (problem) {
    showProblem(problem);
  } else {
    retries = 0;
    await onAnswer(answer);
  }
}

/** The body of a search whose words are marked, if the index has words. */
async function markedBodyOf(asked) {
  const hasWords = (await described)?.modes.includes("lexical");
  return { ...bodyOf(asked), ...(hasWords && { highlight: "words" }) };
}

function searchFor(asked, onAnswer = () => {}) {
  return ask(
    async (signal) => search(await markedBodyOf(asked), signal),
    (answer) => {
      showHits(asked, answer);
      return onAnswer();
    },
  );
}

function openDocument(documentId) {
  const hit = shown?.hits.find((candidate) => candidate.document_id === documentId);
  return ask(
    (signal) => fetchDocument(documentId, signal),
    (found) => showDocument(found, hit?.passage),
  );
}

/** Search the changed index from the beginning. */
function beginAgain() {
  const { query, mode, filter, sort } = shown;
  return searchFor({ query, mode, filter, sort }, () => {
    remark("The index has changed. These are its first documents.");
    window.scrollTo(0, 0);
    hitLinks()[0]?.focus({ preventScroll: true });
  });
}

/** Append the hits that follow, or begin again if the index has changed. */
function showFollowing() {
  underway = new AbortController();
  const { signal } = underway;
  const { offset, hits } = shown;
  const request = async () => search({ ...(await markedBodyOf(shown)), offset }, signal);
  return fill($("more-problem"), request, (answer) => {
    if (answer.index !== shown.index) return beginAgain();
    const known = new Set(hits.map((hit) => hit.document_id));
    const fresh = answer.hits.filter((hit) => !known.has(hit.document_id));
    hits.push(...fresh);
    shown.offset += answer.hits.length;
    const drawn = fresh.map((hit) => drawHit(hit, shown));
    $("hits").append(...drawn);
    showWeaker(shown, described);
    $("count").textContent = amount(hits.length, answer.next);
    announce(`${counted(fresh.length, "document")} more`);
    showMore(answer.next);
    return drawn[0]?.querySelector("a").focus();
  });
}

// The address

function address() {
  const parameters = new URLSearchParams(location.search);
  const query = (parameters.get("q") ?? "").trim();
  const mode = parameters.get("mode") ?? "";
  return { query, mode, ...choice.readChoice(parameters), documentId: parameters.get("document") };
}

/** The query in the box, and what is chosen: until it can be, what the address has. */
function typed() {
  const { mode, filter } = address();
  return {
    query: box.value.trim(),
    mode: modeInputs().find((input) => input.checked)?.value ?? mode,
    filter: choice.chosenFilter() ?? filter,
    sort: choice.chosenOrder(),
  };
}

/** Whether both are the same query in the same mode, with the same filter and order. */
function same(one, other) {
  return ["query", "mode", "filter", "sort"].every((name) => one[name] === other?.[name]);
}

/** Show the query or the document of the address. */
async function follow() {
  const { documentId, ...asked } = address();
  const { query, mode, filter, sort } = asked;
  if (box.value.trim() !== query) box.value = query;
  checkMode(mode);
  choice.chooseFilter(filter, sort);
  entered = true;
  stop();
  const open = () => documentId !== null && openDocument(documentId);
  if (query && !same(asked, shown)) {
    await searchFor(asked, open);
  } else if (documentId !== null) {
    await open();
  } else if (query) {
    returnToResults();
  } else {
    showHome();
  }
}

/** Write what is asked into the address: in a new history entry if the previous results have been read, else in its place. */
function record(asked) {
  const before = address();
  if (same(asked, before) && before.documentId === null) return;
  remark("");
  const wasRead = shown !== null && performance.now() - shown.at > READ_AFTER_MS;
  const keepsEntry = entered || wasRead || !before.query || before.documentId !== null;
  history[keepsEntry ? "pushState" : "replaceState"](null, "", addressOf(asked));
  entered = false;
}

function searchForTyped() {
  clearTimeout(typing);
  const asked = typed();
  record(asked);
  if (!asked.query) showHome();
  else if (same(asked, shown)) showResults();
  else searchFor(asked);
}

/** Open a document; the history entry has the number of entries from the results to it. */
function open(documentId) {
  remark("");
  const fromResults = address().documentId === null;
  if (fromResults) placeInResults = { scroll: window.scrollY, documentId };
  const away = fromResults ? 0 : history.state?.away;
  history.pushState(away === undefined ? null : { away: away + 1 }, "", addressOf(typed(), documentId));
  openDocument(documentId);
}

/** Go back from a document to the results. */
function goBack() {
  if (history.state?.away) {
    history.go(-history.state.away);
  } else {
    history.replaceState(null, "", addressOf(address()));
    follow();
  }
}

// Typing, keys, clicks

box.addEventListener("input", (event) => {
  if (event.isComposing) return;
  stop();
  retries = 0;
  typing = setTimeout(searchForTyped, TYPING_PAUSE_MS);
});
box.addEventListener("compositionend", () => box.dispatchEvent(new InputEvent("input")));

$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  stop();
  searchForTyped();
  entered = true;
  if (matchMedia("(pointer: coarse)").matches) box.blur();
});

$("modes").addEventListener("change", () => $("search").requestSubmit());
$("facets").addEventListener("choice", () => $("search").requestSubmit());

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepKey($("key").value);
  $("key").value = "";
  described = describe();
  again();
});

$("again").addEventListener("click", () => again());

function opensElsewhere(event) {
  return event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
}

$("hits").addEventListener("click", (event) => {
  const row = event.target.closest(".hit");
  if (!row || event.target.closest(".outside, .reasons")) return;
  const { documentId } = row.querySelector("a").dataset;
  const hit = shown.hits.find((candidate) => candidate.document_id === documentId);
  const why = event.target.closest(".why");
  if (why) {
    toggleReasons(why, hit);
    return;
  }
  const opensHere = !opensElsewhere(event) && getSelection().isCollapsed;
  if (opensHere || event.target.closest("a")) {
    described.then((index) => index?.feedback && reportOpened(hit));
  }
  if (opensHere) {
    event.preventDefault();
    open(documentId);
  }
});

function toggleReasons(button, hit) {
  const isOpen = button.ariaExpanded === "true";
  button.ariaExpanded = String(!isOpen);
  if (isOpen) {
    button.nextSibling.remove();
  } else {
    const reasons = document.createElement("div");
    Object.assign(reasons, { className: "reasons", role: "status" });
    button.after(reasons);
    described.then((index) => explain(shown, hit, index, reasons, beginAgain));
  }
}

$("more").addEventListener("click", async () => {
  $("more").disabled = true;
  await showFollowing();
  $("more").disabled = false;
});

$("code").addEventListener("toggle", () => {
  if ($("code").open) showPrograms(shown, $("code-ways"));
});

$("similar").addEventListener("toggle", () => {
  if (!$("similar").open || $("similar-content").firstChild) return;
  const list = document.createElement("div");
  list.role = "status";
  $("similar-content").append(list);
  showSimilar(opened, address(), list);
});

$("similar").addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link || opensElsewhere(event)) return;
  event.preventDefault();
  open(link.dataset.documentId);
});

$("to-passage").addEventListener("click", showPassage);

$("examples").addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link || opensElsewhere(event)) return;
  event.preventDefault();
  box.value = link.textContent;
  $("search").requestSubmit();
});

for (const link of [$("back"), $("notice-back")]) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    goBack();
  });
}

$("home-link").addEventListener("click", (event) => {
  event.preventDefault();
  box.value = "";
  stop();
  searchForTyped();
  box.focus();
});

function hitLinks() {
  return [...$("hits").querySelectorAll("h3 a")];
}

function move(by) {
  const links = hitLinks();
  const from = links.indexOf(document.activeElement);
  if ($("results").hidden || (from < 0 && document.activeElement !== box)) return false;
  const to = from + by;
  if (to < 0) box.focus();
  else links[Math.min(to, links.length - 1)]?.focus();
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey || $("about").open) return;
  const writes = event.target.matches("input:not([type=radio], [type=checkbox]), textarea");
  let handled = true;
  if (event.key === "/" && !writes) {
    box.focus();
    box.select();
  } else if (event.key === "ArrowDown") {
    handled = move(1);
  } else if (event.key === "ArrowUp") {
    handled = document.activeElement !== box && move(-1);
  } else if (event.key === "Escape" && address().documentId !== null) {
    goBack();
  } else if (event.key === "Escape" && document.activeElement !== box) {
    box.focus();
  } else {
    handled = false;
  }
  if (handled) event.preventDefault();
});

addEventListener("popstate", () => {
  remark("");
  follow();
});

// Searches

function modeInputs() {
  return [...$("modes").querySelectorAll("input")];
}

function checkMode(mode) {
  for (const input of modeInputs()) input.checked = input.value === mode;
}

/** Offer the modes and facets of the index. What an address has of others is taken out of it. */
function offer({ modes, facets, fields }) {
  for (const label of $("modes").querySelectorAll("label")) label.remove();
  $("modes").append(...drawModes(modes));
  $("modes").hidden = modes.length < 2;
  const parameters = new URLSearchParams(location.search);
  choice.declareFacets(facets, fields, parameters);
  const { documentId, ...asked } = address();
  checkMode(asked.mode);
  const hasMode = modeInputs().some((input) => input.checked);
  const isWhole = choice.showsWhole(parameters);
  const hasOrder = choice.showsOrder(parameters);
  if (hasMode && isWhole && hasOrder) return;
  const left = [
    !hasMode && asked.mode !== modes[0] && "the mode",
    !isWhole && "the filter, or a part of it",
    !hasOrder && "the order",
  ].filter(Boolean);
  if (!hasMode) asked.mode = "";
  if (!hasOrder) asked.sort = "";
  history.replaceState(history.state, "", addressOf(asked, documentId));
  if (left.length) remark(`Left out, because the page cannot show it: ${left.join("; ")}.`);
  follow();
}

/** Show the size of the index, examples, modes and facets; what `/info` says of the index. */
async function describe() {
  try {
    const info = await fetchInfo();
    const { index, encoder } = info;
    index.hasFiles = info.files;
    index.feedback = info.feedback;
    showProgress(info);
    // Without an encoder, only programs that send embeddings find by meaning.
    if (!encoder.max_tokens) index.modes = index.modes.filter((mode) => mode === "lexical");
    offer(index);
    $("examples").replaceChildren(...drawExamples(index.examples));
    const [documents, passages] = [index.num_documents, index.num_passages];
    $("home-size").textContent = `${counted(documents, "document")} in ${counted(passages, "passage")}.`;
    if (!encoder.max_tokens) {
      $("home-size").textContent += " The index has no encoder: this page searches it by words alone.";
    }
    return index;
  } catch {
    $("home-size").textContent = "";
    return null;
  }
}

$("about-open").addEventListener("click", async () => {
  $("about-content").replaceChildren();
  $("about").showModal();
  try {
    $("about-content").replaceChildren(...drawInfo(await fetchInfo()));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    $("about-content").textContent = error.words;
  }
});
$("about-close").addEventListener("click", () => $("about").close());
$("about").addEventListener("click", (event) => {
  if (event.target === $("about")) $("about").close();
});

offerToAdd(() => {
  described = describe();
});
history.scrollRestoration = "manual";
described = describe();
follow();
