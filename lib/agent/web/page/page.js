// SPDX-License-Identifier: Apache-2.0
// Redraws /v1/status whenever /v1/events delivers an event. Inserts strings as text nodes only,
// never as HTML.
"use strict";

const kRedrawAfter = 150;  // ms, because events arrive in bursts
const kRedrawEvery = 1000;  // ms, because workers report their steps without events
const kTimelineEvery = 10000;  // ms, because the bars of running workers grow
const kBytesPerSecond = 120e3;  // a large job is redrawn less often
const kProblemsMax = 8;
const kKeyNeeded = 401;
const kStates = ["running", "in_round", "dying", "succeeded", "failed", "stopped"];

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
    `started ${clock(status.started)}${status.verdict ? "; " + status.verdict : ""}`;
  setText(byId("logs"), status.logs ? `logs: ${status.logs}` : "");
}

// One line for each problem that exists now.
function problems(status) {
  const out = [];
  if (status.hang) out.push(`hang since ${clock(status.hang.time)}: ${status.hang.text}`);
  if (status.straggler) {
    out.push(`slow since ${clock(status.straggler.time)}: ${status.straggler.text}`);
  }
  const call = status.roll_call;
  if (call && status.phase === "waiting") {
    out.push(`waiting for nodes: ${call.present} of ${call.needed} present` +
      (call.awaited.length ? `; missing: ${listed(call.awaited)}` : "") +
      (call.trouble ? `; ${call.trouble}` : ""));
  }
  const last = status.rounds[status.rounds.length - 1];
  if (last?.left.length && status.phase !== "ended") {
    out.push(`${last.left.length === 1 ? "node" : "nodes"} ${listed(last.left)} lost ` +
             `before round ${last.round}`);
  }
  if (status.phase === "stopping" && last?.why_ended) {
    out.push(`stopping the workers: ${last.why_ended}`);
  }
  for (const worker of status.workers) {
    if (worker.unhealthy && out.length < kProblemsMax) {
      out.push(`rank ${worker.rank} reports that it is unhealthy: ${worker.unhealthy}`);
    }
  }
  return out;
}

function drawBanner(status) {
  const lines = problems(status);
  byId("banner").hidden = lines.length === 0;
  byId("banner").replaceChildren(...lines.map((line) => element("p", "", line)));
}

function drawFacts(status) {
  const end = status.phase === "ended" ? status.phase_since : status.time;
  const plural = (count, noun) => count === 1 ? noun : `${noun}s`;
  const facts = [["round", status.round],
    [plural(status.world_size, "worker"), status.world_size],
    [plural(status.nodes.length, "node"), status.nodes.length],
    [plural(status.regroups, "regroup"), status.regroups],
    [`${plural(status.nodes_lost, "node")} lost`, status.nodes_lost],
    [`${plural(status.nodes_joined, "node")} joined`, status.nodes_joined],
    ["restarts", `${status.restarts} of ${status.max_restarts}`],
    [plural(status.failures.length, "failure"), status.failures.length],
    ["running for", span(end - status.started)]];
  if (status.roll_call) {
    facts.push(["nodes present", `${status.roll_call.present} of ${status.roll_call.needed}`]);
  }
  byId("facts").replaceChildren(...facts.map(([name, value]) => {
    const fact = element("div", "fact");
    fact.append(element("b", "", value ?? "none"), element("span", "", name));
    return fact;
  }));
}

// The ranks that the others wait for.
function marksOf(status) {
  return {slow: new Set(status.straggler?.ranks), hung: new Set(status.hang?.ranks)};
}

// Only the rank that caused the failure is red. Others fail because of it.
function chipClass(worker, marks) {
  const state = worker.state === "failed" && !worker.root_cause ? "stopped" : worker.state;
  return state + markClass(worker.rank, marks);
}

function markClass(rank, marks) {
  return (marks.slow.has(rank) ? " slow" : "") + (marks.hung.has(rank) ? " hung" : "");
}

function chipTitle(worker, marks) {
  const parts = [`rank ${worker.rank}, pid ${worker.pid}: ${stateText(worker)}`];
  if (worker.step !== null) parts.push(`step ${worker.step}`);
  if (worker.waits !== null) parts.push(`waiting ${percent(worker.waits)}`);
  if (marks.slow.has(worker.rank)) parts.push("slow");
  if (marks.hung.has(worker.rank)) parts.push("blocks the others");
  return parts.join(", ");
}

function drawRank(number, className, title) {
  const cell = element("span", `rank ${className}`, number);
  cell.title = title;
  return cell;
}

function drawNode(node, workers, marks) {
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
    const state = node.state === "in_round" ? "in_round" : "stopped";
    ranks.append(worker
      ? drawRank(rank, chipClass(worker, marks), chipTitle(worker, marks))
      : drawRank(rank, state + markClass(rank, marks),
                 `rank ${rank}: ${node.state.replace("_", " ")}`));
  }
  card.append(head, ranks);
  return card;
}

function drawNodes(status, marks) {
  const workers = new Map(status.workers.map((worker) => [worker.rank, worker]));
  const cards = status.nodes.map((node) => drawNode(node, workers, marks));
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
  const slow = element("span");
  slow.append(element("span", "rank slow", ""), " slow, or blocks the others");
  byId("legend").append(slow);
}

function fill(list, items) {
  byId(list).replaceChildren(...(items.length ? items : [element("li", "dim", "none")]));
}

function drawFailures(failures) {
  fill("failures", failures.slice().reverse().map((failure) => {
    const who = failure.rank === null ? failure.node : `rank ${failure.rank} on ${failure.node}`;
    const item = element("li");
    item.append(element("b", "bad", who), ` ${failure.text}`,
                ...(failure.last_line ? [element("code", "", failure.last_line)] : []),
                element("div", "dim", `${clock(failure.time)}, round ${failure.round}`));
    return item;
  }));
}

function drawLists(status) {
  drawFailures(status.failures);
  drawn = status;
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
  const text = await fetchText("/v1/timeline.svg");
  const plain = text.replace(/<style>[^]*?<\/style>/, "");  // see page.css
  const parsed = new DOMParser().parseFromString(plain, "image/svg+xml");
  byId("timeline").replaceChildren(document.importNode(parsed.documentElement, true));
}

let fetched = 0;  // bytes since the last redraw began

// Empty if another job uses this address now.
async function fetchText(path) {
  const answer = await fetch(path);
  if (answer.status === kKeyNeeded) return "";
  const text = await answer.text();
  fetched += text.length;
  return text;
}

function drawStatus(status) {
  const marks = marksOf(status);
  drawHead(status);
  drawBanner(status);
  drawFacts(status);
  drawNodes(status, marks);
  drawSteps(status);
  drawRanks(status, marks);
  drawLists(status);
}

let drawn = null;  // the last status
let failed = [];   // worker_failed events since then
let drawing = false;
let timelineAt = -Infinity;
let isTimelineStale = true;  // a round or a worker has changed
let timer = 0;
let over = false;

// The next redraw, unless one is already due earlier. Waits longer after a large response.
function drawLater(wanted) {
  clearTimeout(timer);
  timer = setTimeout(draw, Math.max(wanted, restUntil - performance.now()));
}

let restUntil = 0;

async function draw() {
  if (drawing || over) return;
  drawing = true;
  failed = [];
  fetched = 0;
  const begun = performance.now();
  try {
    const text = await fetchText("/v1/status");
    if (text === "") {
      byId("live").textContent = "another job uses this address now: open its URL";
    } else {
      drawStatus(JSON.parse(text));
      if (isTimelineStale || begun - timelineAt > kTimelineEvery) {
        isTimelineStale = false;
        timelineAt = begun;
        await drawTimeline();
      }
    }
  } catch (error) {
    if (!over) byId("live").textContent = "no response from the launcher";
  }
  restUntil = begun + 1000 * fetched / kBytesPerSecond;
  drawing = false;
  drawLater(kRedrawEvery);
}

// When the last event arrives, the server has already stopped, so the final state is drawn from
// the event.
function drawEnd(event) {
  over = true;
  clearTimeout(timer);
  byId("phase").textContent = event.outcome.replace("_", " ");
  byId("phase").className = `phase ${event.outcome}`;
  byId("live").textContent = `the job exited with code ${event.exit_code}`;
  byId("banner").hidden = true;
  document.title = `${event.outcome} · muster`;
  // In a job that succeeded, every worker succeeded.
  const state = event.outcome === "succeeded" ? "succeeded" : "stopped";
  for (const cell of document.querySelectorAll(".node .running, .node .in_round")) {
    cell.className = `rank ${state}`;
  }
  const root = event.root_cause?.rank ?? event.root_rank;
  for (const cell of document.querySelectorAll(".node .rank")) {
    if (Number(cell.textContent) === root) cell.className = "rank failed";
  }
  drawFailures([...(drawn?.failures || []), ...failed]);
}

// The same as in the status.
function failureOf(event) {
  const message = event.message ? `: ${event.message}` : "";
  return {time: event.unix_time, round: event.round, node: event.node, rank: event.rank,
          text: event.end + message,
          last_line: message ? null : lastLine(event.traceback || event.stderr_tail)};
}

function take(event) {
  addEvent(event);
  isTimelineStale ||= /^(round|worker_(started|dying|ended)|regroup|restart)/.test(event.event);
  if (event.event === "worker_failed") failed.push(failureOf(event));
  if (event.event === "job_ended") drawEnd(event);
  else drawLater(kRedrawAfter);
}

function follow() {
  const source = new EventSource(`/v1/events?last=${kEventsShown}`);
  source.onopen = () => { byId("live").textContent = "live"; };
  source.onerror = () => {
    if (over) source.close();
    else byId("live").textContent = "not connected";
  };
  source.onmessage = (message) => take(JSON.parse(message.data));
}

drawLegend();
draw();
follow();
