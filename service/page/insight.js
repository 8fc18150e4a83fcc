// The page at /insight: the report on the query log, for whoever has an admin key.

import { element } from "./elements.js";
import { Problem, fetchAsAdmin, fill, keep, kept } from "./service.js";

const KEY = "swiftlet.admin-key";
const NO_LOG = "This service keeps no query log. Set SWIFTLET_QUERY_LOG to a folder, and start it again.";

const $ = (id) => document.getElementById(id);

$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keep(KEY, $("key").value);
  $("key").value = "";
  show();
});

async function show() {
  $("report").replaceChildren();
  $("state").textContent = "Reading the log";
  await fill($("state"), request, ({ sentences, tables, plot }) => {
    $("key-form").hidden = true;
    $("state").textContent = `${sentences.join(". ")}.`;
    $("report").replaceChildren(drawPlot(plot), ...tables.map(drawTable));
  });
}

async function request() {
  try {
    return await fetchAsAdmin("insight/report", kept(KEY));
  } catch (error) {
    if (error instanceof Problem && error.status === 404) error.words = NO_LOG;
    throw error;
  }
}

function drawPlot(plot) {
  const image = element("img");
  Object.assign(image, { src: `data:image/svg+xml,${encodeURIComponent(plot)}`, alt: "Searches by time" });
  return image;
}

function drawTable({ name, title, columns, rows }) {
  const head = columns.map((column) => Object.assign(element("th", "", column), { scope: "col" }));
  const body = rows.map((row) => element("tr", "", row.map((cell) => element("td", "", cell))));
  const table = element("table", "", element("thead", "", element("tr", "", head)), element("tbody", "", body));
  const whole = element("div", "table", table);
  Object.assign(whole, { id: name, tabIndex: 0, role: "region", ariaLabel: title });
  const file = element("a", "quiet", "CSV", element("span", "spoken", ` of: ${title}`));
  file.href = URL.createObjectURL(new Blob([asCsv([columns, ...rows])], { type: "text/csv" }));
  file.download = `${name}.csv`;
  return element("section", "", element("h2", "", title, " ", file), whole);
}

function asCsv(rows) {
  return rows.map((row) => row.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(",")).join("\r\n");
}

if (kept(KEY)) show();
