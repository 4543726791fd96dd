// SPDX-License-Identifier: Apache-2.0
// Redraws /v1/status whenever /v1/events delivers an event. Inserts strings as text nodes only,
// never as HTML.
"use strict";

const kEventsShown = 200;
const kRedrawAfter = 150;  // ms, because events arrive in bursts
const kAgesEvery = 5000;   // ms, because the bars of running workers grow
const kKeyNeeded = 401;
const kStates = ["running", "in_round", "dying", "succeeded", "failed", "stopped"];

const byId = (id) => document.getElementById(id);
let drawing = false;
let again = false;
let over = false;

function element(tag, className, text) {
  const out = document.createElement(tag);
  if (className) out.className = className;
  if (text !== undefined) out.textContent = text;
  return out;
}

function clock(seconds) {
  return seconds ? new Date(seconds * 1000).toLocaleTimeString() : "";
}

function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
}

function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function nameOf(status) {
  return (status.program || "job").split("/").pop();
}

function drawHead(status) {
  const phase = status.phase === "ended" ? status.outcome : status.phase;
  byId("job").textContent = nameOf(status);
  byId("job").title = status.program || "";
  byId("phase").textContent = phase.replace("_", " ");
  byId("phase").className = `phase ${phase}`;
  document.title = `${phase} · ${nameOf(status)} · muster`;
  const leads = status.leader ? ", the leader" : "";
  byId("about").textContent = `job ${status.job}, as seen by ${status.node}${leads}; ` +
    `started ${clock(status.started)}${status.verdict ? "; " + status.verdict : ""}` +
    `${status.hang ? `; hang since ${clock(status.hang.time)}: ${status.hang.text}` : ""}` +
    `${status.straggler
      ? `; slow since ${clock(status.straggler.time)}: ${status.straggler.text}` : ""}`;
}

function drawFacts(status) {
  const end = status.phase === "ended" ? status.phase_since : status.time;
  const facts = [["round", status.round], ["workers", status.world_size],
    ["nodes", status.nodes.length], ["regroups", status.regroups],
    ["nodes lost", status.nodes_lost], ["nodes joined", status.nodes_joined],
    ["restarts", `${status.restarts} of ${status.max_restarts}`],
    ["failures", status.failures.length], ["running for", span(end - status.started)]];
  if (status.roll_call) {
    facts.push(["nodes present", `${status.roll_call.present} of ${status.roll_call.needed}`]);
  }
  byId("facts").replaceChildren(...facts.map(([name, value]) => {
    const fact = element("div", "fact");
    fact.append(element("b", "", value ?? "none"), element("span", "", name));
    return fact;
  }));
}

function drawRank(number, state, title) {
  const cell = element("span", `rank ${state}`, number);
  cell.title = title;
  return cell;
}

function drawNode(node, workers) {
  const card = element("div", `node${node.here ? " here" : ""}`);
  const head = element("h3");
  const notes = [node.group_rank === 0 ? "leader" : "", node.here ? "this node" : ""];
  head.append(element("b", "", node.name),
              element("span", "dim", notes.filter(Boolean).join(", ")));
  head.title = node.address || node.name;
  const ranks = element("div", "ranks");
  for (let i = 0; i < node.workers; i++) {
    const rank = node.rank_first + i;
    const worker = node.here ? workers.get(rank) : undefined;
    const state = worker ? worker.state : node.state === "in_round" ? "in_round" : "stopped";
    const step = (worker && worker.step !== null ? `, step ${worker.step}` : "") +
      (worker && worker.waits !== null ? `, waiting ${Math.round(100 * worker.waits)} %` : "");
    ranks.append(drawRank(rank, state, worker
      ? `rank ${rank}, pid ${worker.pid}: ${worker.end || worker.unhealthy || worker.state}${step}`
      : `rank ${rank}: ${node.state.replace("_", " ")}`));
  }
  card.append(head, ranks);
  return card;
}

function drawNodes(status) {
  const workers = new Map(status.workers.map((worker) => [worker.rank, worker]));
  const cards = status.nodes.map((node) => drawNode(node, workers));
  const last = status.rounds[status.rounds.length - 1];
  const names = new Set(status.nodes.map((node) => node.name));
  const gone = new Map();
  for (const round of status.rounds) {
    for (const name of round.left) if (!names.has(name)) gone.set(name, round.round);
  }
  for (const [name, round] of last ? gone : []) {
    const card = element("div", "node left");
    const head = element("h3");
    head.append(element("b", "", name), element("span", "dim", `absent since round ${round}`));
    card.append(head);
    cards.push(card);
  }
  byId("nodes").replaceChildren(...cards);
}

function drawLegend() {
  byId("legend").replaceChildren(...kStates.map((state) => {
    const item = element("span");
    const words = state === "in_round" ? "in the round (on another node)" : state;
    item.append(element("span", `rank ${state}`, ""), ` ${words}`);
    return item;
  }));
}

function fill(list, items) {
  byId(list).replaceChildren(...(items.length ? items : [element("li", "dim", "none")]));
}

function drawLists(status) {
  const failures = status.failures.slice().reverse().map((failure) => {
    const who = failure.rank === null ? failure.node : `rank ${failure.rank} on ${failure.node}`;
    const item = element("li");
    item.append(element("b", "bad", who), ` ${failure.text}`,
                element("div", "dim", `${clock(failure.time)}, round ${failure.round}`));
    return item;
  });
  fill("failures", failures);
  const rounds = status.rounds.filter((round) => round.ended).reverse().map((round) => {
    const item = element("li");
    item.append(element("b", "", `round ${round.round}`), ` ${round.why_ended || ""}`,
                element("div", "dim",
                        `${clock(round.begun)}, ${span(round.ended - round.begun)}, ` +
                        `${counted(round.world_size, "worker")} on ` +
                        counted(round.nodes, "node")));
    return item;
  });
  fill("rounds", rounds);
}

async function drawTimeline() {
  const answer = await fetch("/v1/timeline.svg");
  const text = (await answer.text()).replace(/<style>[^]*?<\/style>/, "");  // see page.css
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
  byId("timeline").replaceChildren(document.importNode(parsed.documentElement, true));
}

async function draw() {
  if (drawing) {
    again = true;
    return;
  }
  drawing = true;
  again = false;
  try {
    const answer = await fetch("/v1/status");
    if (answer.status === kKeyNeeded) {
      byId("live").textContent = "another job uses this address now: open its URL";
      drawing = false;
      return;
    }
    const status = await answer.json();
    drawHead(status);
    drawFacts(status);
    drawNodes(status);
    drawLists(status);
    await drawTimeline();
  } catch (error) {
    if (!over) byId("live").textContent = "no response from the launcher";
  }
  drawing = false;
  if (again) setTimeout(draw, kRedrawAfter);
}

// When the last event arrives, the server has already stopped, so the final state is drawn from
// the event.
function drawEnd(event) {
  over = true;
  byId("phase").textContent = event.outcome.replace("_", " ");
  byId("phase").className = `phase ${event.outcome}`;
  byId("live").textContent = `the job exited with code ${event.exit_code}`;
  document.title = `${event.outcome} · muster`;
  // In a job that succeeded, every worker succeeded.
  const state = event.outcome === "succeeded" ? "succeeded" : "stopped";
  for (const cell of document.querySelectorAll(".node .running, .node .in_round")) {
    cell.className = `rank ${state}`;
  }
}

function describe(event) {
  const {v, time, event: name, node, round, ...rest} = event;
  const fields = Object.entries(rest)
    .filter(([, value]) => value !== null && value !== "" && typeof value !== "object")
    .map(([key, value]) => `${key}=${String(value).split("\n")[0].slice(0, 120)}`);
  return `${clock(time)}  round ${round}  ${name}  ${fields.join("  ")}`;
}

function follow() {
  const source = new EventSource("/v1/events");
  let timer = 0;
  source.onopen = () => { byId("live").textContent = "live"; };
  source.onerror = () => {
    if (over) source.close();
    else byId("live").textContent = "not connected";
  };
  source.onmessage = (message) => {
    const event = JSON.parse(message.data);
    const log = byId("events");
    log.prepend(element("li", "", describe(event)));
    while (log.childElementCount > kEventsShown) log.lastChild.remove();
    if (event.event === "job_ended") drawEnd(event);
    clearTimeout(timer);
    timer = setTimeout(draw, kRedrawAfter);
  };
}

drawLegend();
draw();
follow();
setInterval(() => { if (!over) draw(); }, kAgesEvery);
