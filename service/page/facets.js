// The facets: check boxes for the values of declared fields, and the filter that they make; one for the order.

import { drawFacet } from "./drawing.js";
import { Problem, fetchFacets } from "./service.js";

const root = document.getElementById("facets");
const form = document.getElementById("facet-fields");
const wide = matchMedia("(min-width: 74rem)");
const DATE = "modified"; // a field whose values are times: those since a day can be chosen
const PERIODS = { "past week": 7, "past month": 30, "past year": 365 };
const DAY_MS = 86_400_000;
const NEWEST = `${DATE}:desc`;
const newest = document.querySelector("#newest input");

/** The declared fields; null until they are known. */
let fields = null;
/** The chosen values of each field that has some. */
let chosen = new Map();
/** The values of each field, with their counts. */
let counts = new Map();
let refreshed = 0;

/** The filter in JSON and the order of an address, as far as check boxes can show them; else "". */
export function readChoice(parameters) {
  const sort = parameters.get("sort") === NEWEST ? NEWEST : "";
  return { filter: written(parsed(parameters.get("filter"))), sort };
}

/** Whether a check box can show the order of an address. */
export function showsOrder(parameters) {
  const sort = parameters.get("sort");
  return !sort || (sort === NEWEST && !newest.parentElement.hidden);
}

/** Whether check boxes can show the whole of the filter of an address. */
export function showsWhole(parameters) {
  const all = conditions(parameters.get("filter"));
  return all !== null && all.every(([field, condition]) => {
    const number = usable(field, condition).length;
    return number > 0 && number === [condition].flat().length;
  });
}

export function chosenOrder() {
  return newest.checked ? NEWEST : "";
}

/** The chosen filter in JSON; null until the fields are known. */
export function chosenFilter() {
  return fields && written(chosen);
}

/** Offer the values of these fields of an index that has some more, and check the boxes of an address. */
export function declareFacets(declared, all, parameters) {
  newest.parentElement.hidden = !all.includes(DATE);
  fields = all.includes(DATE) && !declared.includes(DATE) ? [...declared, DATE] : declared;
  chosen = parsed(parameters.get("filter"));
  if (fields.length) refresh();
}

/** Check the boxes of a filter and an order. */
export function chooseFilter(text, sort) {
  newest.checked = Boolean(sort);
  if (!fields || text === written(chosen)) return;
  chosen = parsed(text);
  refresh();
}

export function showFacets(visible) {
  root.hidden = !visible || !fields?.length;
}

/** The conditions of a filter in JSON by their fields; one that is not an object has null. */
function conditions(text) {
  try {
    const given = JSON.parse(text || "{}");
    return given && typeof given === "object" && !Array.isArray(given) ? Object.entries(given) : null;
  } catch {
    return null;
  }
}

/** The values that a check box can have, of one field's condition: a value, or a list of any of which. */
function usable(field, condition) {
  if (fields && !fields.includes(field)) return [];
  const only = condition && Object.keys(condition).join() === "gte"; // of a range, both ends count
  if (field === DATE && only && typeof condition.gte === "string") return [`>=${condition.gte}`];
  return [condition].flat().filter((value) => value !== null && typeof value !== "object");
}

function parsed(text) {
  const found = new Map();
  for (const [field, condition] of conditions(text) ?? []) {
    const values = usable(field, condition);
    if (values.length) found.set(field, [...new Set(values)]);
  }
  return found;
}

function written(filter) {
  const written = [...filter].map(([field, values]) => {
    const day = field === DATE && /^>=(.*)/.exec(values[0]);
    return [field, day ? { gte: day[1] } : values];
  });
  return filter.size ? JSON.stringify(Object.fromEntries(written)) : "";
}

/** The days since which something may have been modified. */
function periods() {
  return Object.entries(PERIODS).map(([name, days]) => {
    const day = new Date(Date.now() - days * DAY_MS).toISOString().slice(0, 10);
    return { value: `>=${day}`, name };
  });
}

/** Count the values again. The choice in a field does not change the counts of that field. */
async function refresh() {
  draw();
  refreshed += 1;
  const number = refreshed;
  const others = [...chosen.keys()].map(async (field) => {
    const rest = new Map(chosen);
    rest.delete(field);
    const answer = await fetchFacets(written(rest));
    return [field, answer[field]];
  });
  try {
    const [all, ...own] = await Promise.all([fetchFacets(written(chosen)), ...others]);
    if (number !== refreshed) return;
    counts = new Map([...Object.entries(all), ...own]);
    draw();
  } catch (error) {
    if (!(error instanceof Problem)) throw error; // the search shows it
  }
}

function draw() {
  const focused = form.contains(document.activeElement) ? document.activeElement : null;
  const open = new Set([...form.querySelectorAll("details[open]")].map((more) => more.dataset.field));
  form.replaceChildren(
    ...fields.map((field, number) => {
      const own = chosen.get(field) ?? [];
      const counted = counts.get(field) ?? (field === DATE ? periods() : []);
      const uncounted = own.filter((value) => !counted.some((each) => each.value === value));
      const values = [...counted, ...uncounted.map((value) => ({ value }))];
      return drawFacet(`facet-${number}`, field, values, own, open.has(field));
    }),
  );
  const controls = [...form.querySelectorAll("input, summary")];
  if (focused) {
    const same = controls.find((each) => named(each) === named(focused));
    const near = same ?? controls.find((each) => each.name === focused.name);
    near?.focus({ preventScroll: true });
  }
  const number = [...chosen.values()].flat().length;
  document.getElementById("facets-chosen").textContent = number ? `${number} chosen` : "";
  document.getElementById("facets-clear").hidden = !number;
}

function named({ name, dataset, parentElement }) {
  return JSON.stringify([name, dataset.value, parentElement.dataset.field]);
}

function choose(values) {
  chosen = values;
  refresh();
  root.dispatchEvent(new Event("choice"));
}

form.addEventListener("input", ({ target }) => {
  const value = JSON.parse(target.dataset.value);
  const earlier = target.name === DATE ? [] : (chosen.get(target.name) ?? []);
  const own = earlier.filter((each) => each !== value);
  if (target.checked) own.push(value);
  const values = new Map(chosen);
  if (own.length) values.set(target.name, own);
  else values.delete(target.name);
  choose(values);
});

newest.addEventListener("change", () => root.dispatchEvent(new Event("choice")));

document.getElementById("facets-clear").addEventListener("click", () => {
  choose(new Map());
  form.querySelector("input")?.focus();
});

function fit() {
  root.open = wide.matches;
}
wide.addEventListener("change", fit);
fit();
