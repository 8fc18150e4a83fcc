// Titles below the box while a query is typed: a combobox with a list, as ARIA describes it.

import { counted, drawSuggestion } from "./drawing.js";
import { Problem, fetchSuggestions } from "./service.js";

const PAUSE_MS = 150;
const MOST = 5;
const LEAST_CHARACTERS = 2;
const MOST_CHARACTERS = 200; // of the service

const box = document.getElementById("query");
const list = document.getElementById("suggestions");
const count = document.getElementById("suggestions-count");

let typing = 0;
let underway = new AbortController();
/** The place of the active suggestion; -1 if there is none. */
let active = -1;

function activate(place) {
  active = place;
  [...list.children].forEach((option, number) => {
    option.ariaSelected = String(number === place);
  });
  const option = list.children[place];
  if (option) box.setAttribute("aria-activedescendant", option.id);
  else box.removeAttribute("aria-activedescendant");
  option?.scrollIntoView({ block: "nearest" });
}

function show(suggestions) {
  list.replaceChildren(...suggestions.map(drawSuggestion));
  list.hidden = !suggestions.length;
  box.ariaExpanded = String(!list.hidden);
  count.textContent = list.hidden ? "" : `${counted(suggestions.length, "title")} below the box`;
  activate(-1);
}

/** Give up what was asked for. */
function stop() {
  clearTimeout(typing);
  underway.abort();
}

function close() {
  stop();
  show([]);
}

async function suggest(text) {
  underway = new AbortController();
  const { signal } = underway;
  let found = [];
  try {
    found = await fetchSuggestions(text, MOST, signal);
  } catch (error) {
    if (!signal.aborted && !(error instanceof Problem)) throw error; // the search shows a problem
  }
  if (signal.aborted || document.activeElement !== box || box.value.trim() !== text) return;
  show(found.filter(({ title }) => title.trim() !== text));
}

function take(option) {
  box.value = option.textContent.trim();
  box.form.requestSubmit();
}

box.addEventListener("input", (event) => {
  if (event.isComposing) return;
  stop();
  activate(-1);
  const text = box.value.trim();
  if (text.length < LEAST_CHARACTERS || text.length > MOST_CHARACTERS) close();
  else typing = setTimeout(suggest, PAUSE_MS, text);
});

box.addEventListener("keydown", (event) => {
  const { key } = event;
  if (list.hidden || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
  const last = list.children.length - 1;
  if (key === "ArrowDown") activate(active === last ? -1 : active + 1);
  else if (key === "ArrowUp") activate(active < 0 ? last : active - 1);
  else if (key === "Enter" && active >= 0) take(list.children[active]);
  else if (key === "Escape") close();
  else return;
  event.preventDefault();
  event.stopPropagation(); // the page has other uses for these keys
});

// The box keeps the focus.
list.addEventListener("mousedown", (event) => event.preventDefault());
list.addEventListener("click", (event) => {
  const option = event.target.closest("li");
  if (option) take(option);
});

box.addEventListener("blur", close);
box.form.addEventListener("submit", close);
addEventListener("popstate", close);
