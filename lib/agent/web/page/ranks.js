// SPDX-License-Identifier: Apache-2.0
// The table of ranks and the chart of step times.
"use strict";

const kNumberColumnsMax = 8;
const kChartWidth = 960;
const kChartHeight = 120;
const kChartLeft = 64;
const kChartBottom = 18;
const kIntervalsMin = 30;  // on the time axis of the chart
const kEmpty = "\u2013";

let columns = [];       // of the table, in order
let rows = new Map();   // from rank to {row, cells}
let sortedBy = "rank";
let descending = false;

function column(title, value, text, hint) {
  return {title, value, text: text || ((found) => String(found)), hint: hint || ""};
}

function stateText(worker) {
  return worker.unhealthy ? `unhealthy: ${worker.unhealthy}` : worker.end || worker.state;
}

// One column per number that a worker reports.
function numberColumns(workers) {
  const names = new Set();
  for (const worker of workers) {
    for (const name of Object.keys(worker.numbers || {})) {
      if (names.size < kNumberColumnsMax) names.add(name);
    }
  }
  return [...names].map((name) => column(name, (worker) => worker.numbers?.[name], rounded,
                                         "reported with progress()"));
}

function wantedColumns(workers) {
  return [
    column("rank", (worker) => worker.rank),
    column("state", stateText),
    column("step", (worker) => worker.step),
    column("steps/s", (worker) => worker.steps_per_second, rounded),
    ...numberColumns(workers),
    column("waiting", (worker) => worker.waits, percent,
           "time spent waiting for other ranks in collective operations"),
    column("CPU", (worker) => worker.cpus, percent, "100 % is one CPU"),
    column("memory", (worker) => worker.memory, bytes),
    column("GPU", (worker) => worker.gpus, percent, "100 % is one GPU"),
    column("GPU memory", (worker) => worker.gpu_memory, bytes),
    column("last output", (worker) => worker.output_age, (age) => `${span(age)} ago`),
  ].filter((one) => ["rank", "state", "step"].includes(one.title) ||
                    workers.some((worker) => (one.value(worker) ?? null) !== null));
}

function drawColumns() {
  const head = element("tr");
  for (const one of columns) {
    const cell = element("th");
    const button = element("button", "", one.title);
    button.type = "button";
    button.title = one.hint || `sort by ${one.title}`;
    button.onclick = () => {
      descending = sortedBy === one.title ? !descending : false;
      sortedBy = one.title;
      sortRows();
    };
    cell.append(button);
    head.append(cell);
  }
  byId("ranks").tHead.replaceChildren(head);
  byId("ranks").tBodies[0].replaceChildren();
  rows = new Map();
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other));
}

// Ranks without a value come last.
function sortRows() {
  const by = columns.find((one) => one.title === sortedBy) || columns[0];
  const sorted = [...rows.values()].sort((one, other) => {
    const [a, b] = [by.value(one.worker) ?? null, by.value(other.worker) ?? null];
    if (a === null || b === null) return (a === null) - (b === null);
    return (descending ? -1 : 1) * compare(a, b) || one.worker.rank - other.worker.rank;
  });
  const body = byId("ranks").tBodies[0];
  if (sorted.some((one, i) => body.children[i] !== one.row)) {
    body.replaceChildren(...sorted.map((one) => one.row));
  }
  for (const [i, cell] of [...byId("ranks").tHead.rows[0].cells].entries()) {
    const chosen = columns[i] === by;
    cell.setAttribute("aria-sort", !chosen ? "none" : descending ? "descending" : "ascending");
  }
}

function drawRow(worker, marks) {
  let shown = rows.get(worker.rank);
  if (!shown) {
    const row = element("tr");
    const cells = columns.map((one) => element("td", one.title === "state" ? "text" : ""));
    row.append(...cells);
    shown = {row, cells, worker};
    rows.set(worker.rank, shown);
  }
  shown.worker = worker;
  shown.row.className = chipClass(worker, marks);
  columns.forEach((one, i) => {
    const found = one.value(worker) ?? null;
    setText(shown.cells[i], found === null ? kEmpty : one.text(found));
  });
}

function drawRanks(status, marks) {
  const wanted = wantedColumns(status.workers);
  const titles = (list) => list.map((one) => one.title).join("\n");
  if (titles(wanted) !== titles(columns)) {
    columns = wanted;
    drawColumns();
  }
  const present = new Set(status.workers.map((worker) => worker.rank));
  for (const rank of rows.keys()) if (!present.has(rank)) rows.delete(rank);
  for (const worker of status.workers) drawRow(worker, marks);
  sortRows();
  const others = status.world_size - status.workers.length;
  setText(byId("elsewhere"), others > 0
    ? `${counted(others, "rank")} on other nodes: see the pages of their launchers` : "");
}

function shape(name, attributes, text) {
  const out = document.createElementNS(byId("steps").namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) out.setAttribute(key, value);
  if (text !== undefined) out.textContent = text;
  return out;
}

// A line through all intervals in which steps were completed.
function chartLine(seconds, most) {
  const intervals = Math.max(kIntervalsMin, seconds.length);
  const step = (kChartWidth - kChartLeft) / (intervals - 1);
  const first = intervals - seconds.length;
  const points = seconds.map((value, i) => value === null ? "" :
    `${(kChartLeft + (first + i) * step).toFixed(1)},` +
    `${((kChartHeight - kChartBottom) * (1 - value / most) + 4).toFixed(1)}`)
    .filter(Boolean);
  return [...points, points.at(-1)].join(" ");  // the round end of a line shows a single point
}

function drawSteps(status) {
  const seconds = status.step_times?.seconds || [];
  const values = seconds.filter((value) => value !== null);
  byId("steps_card").hidden = values.length === 0;
  if (values.length === 0) return;
  const shown = Math.max(kIntervalsMin, seconds.length) * status.step_times.interval;
  const most = 1.1 * Math.max(...values);
  const bottom = kChartHeight - kChartBottom + 4;
  const image = document.createDocumentFragment();
  for (const part of [0, 0.5, 1]) {
    const y = bottom - part * (bottom - 4) / 1.1;
    image.append(
      shape("line", {x1: kChartLeft, x2: kChartWidth, y1: y, y2: y, class: "tl-grid"}),
      shape("text", {x: kChartLeft - 6, y: y + 3, class: "tl-dim", "text-anchor": "end"},
            duration(part * most / 1.1)));
  }
  image.append(
    shape("polyline", {points: chartLine(seconds, most), class: "step-line"}),
    shape("text", {x: kChartLeft, y: kChartHeight + 2, class: "tl-dim"},
          `${span(shown)} ago`),
    shape("text", {x: kChartWidth, y: kChartHeight + 2, class: "tl-dim", "text-anchor": "end"},
          "now"));
  byId("steps").replaceChildren(image);
  setText(byId("steps_now"), `${duration(values.at(-1))} per step`);
}
