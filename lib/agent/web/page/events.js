// SPDX-License-Identifier: Apache-2.0
// The list of events: a sentence for each event, which expands to its fields.
"use strict";

const kEventsShown = 200;
const kDataLetters = 200;

const lastLine = (text) => (text || "").trim().split("\n").pop();

const kSentences = {
  job_started: (e) => `${e.program} started with ${counted(e.workers, "worker")} on ${e.node}`,
  http_opened: (e) => `the page is served at ${e.address}, port ${e.port}`,
  round_awaited: () => "this node is waiting for a round",
  roll_call: (e) => `${e.present} of ${counted(e.needed, "node")} present` +
    (e.awaited?.length ? `; missing: ${listed(e.awaited)}` : "") +
    (e.trouble ? `; ${e.trouble}` : ""),
  round_begun: (e) => `round ${e.round} began: ${counted(e.world_size, "worker")} on ` +
    counted(Math.max(1, e.nodes?.length || 0), "node") +
    (e.left?.length ? `, without ${listed(e.left)}` : "") +
    (e.joined?.length ? `, joined by ${listed(e.joined)}` : ""),
  worker_started: (e) => `rank ${e.rank} started, pid ${e.pid}`,
  worker_dying: (e) => `rank ${e.rank} is dying: ${e.end}`,
  worker_ended: (e) => `rank ${e.rank} ${e.end}`,
  worker_ready: (e) => `rank ${e.rank} has started work`,
  worker_unhealthy: (e) => `rank ${e.rank} is unhealthy: ${e.why}`,
  worker_healthy: (e) => `rank ${e.rank} is healthy again`,
  worker_event: (e) => `rank ${e.rank} reports ${JSON.stringify(e.data).slice(0, kDataLetters)}`,
  worker_failed: (e) => `rank ${e.rank} on ${e.node} failed: ${e.end}` +
    ((why) => why ? `: ${why}` : "")(e.message || lastLine(e.traceback || e.stderr_tail)),
  restart: (e) => e.text || `workers restart because rank ${e.rank} failed`,
  mended: (e) => `all ranks on this node work again after ${duration(e.seconds)}`,
  preempt: (e) => `the job will be stopped in ${duration(e.seconds)}: ${e.why}`,
  saved: (e) => `rank ${e.rank} has saved its state as of step ${e.step}`,
  regroup: (e) => `the nodes form a new round: ${e.reason}`,
  fenced: (e) => `this node lost contact with the other nodes: ${e.reason}`,
  signal: (e) => `the launcher received ${e.signal}` + (e.sender ? ` from pid ${e.sender}` : ""),
  workers_signalled: (e) => `${e.signal} was sent to all workers on this node`,
  workers_killed: () => "remaining processes on this node were killed",
  leftovers: (e) => `${counted(e.processes?.length || 0, "process", "processes")} left behind` +
    `: ${e.fate}`,
  part_done: () => "all workers on this node succeeded",
  hang: (e) => (e.text?.[0] || `hang: ${e.reason}`),
  hang_over: (e) => `workers are making progress again after ${duration(e.quiet)}`,
  straggler: (e) => e.text,
  straggler_over: (e) => `no longer slow: ${ranksText(e.ranks || [])}`,
  message: (e) => e.text,
  job_ended: (e) => `the job ended: ${e.outcome}, exit code ${e.exit_code}` +
    (e.verdict ? `; ${e.verdict}` : ""),
};

function sentence(event) {
  const text = kSentences[event.event]?.(event) || event.event.replaceAll("_", " ");
  return String(text).split("\n")[0];
}

// The fields appear when the event is opened for the first time.
function drawEvent(event) {
  const item = element("li", event.event);
  const box = element("details");
  const line = element("summary");
  line.append(element("span", "dim", clock(event.time)), ` ${sentence(event)}`);
  box.append(line);
  box.addEventListener("toggle", () => {
    if (box.childElementCount > 1) return;
    const fields = element("dl");
    for (const [name, value] of Object.entries(event)) {
      fields.append(element("dt", "", name),
                    element("dd", "", typeof value === "string" ? value : JSON.stringify(value)));
    }
    box.append(fields);
  });
  item.append(box);
  return item;
}

let arrived = [];  // events that are not drawn yet

function drawEvents() {
  const log = byId("events");
  log.prepend(...arrived.slice(-kEventsShown).reverse().map(drawEvent));
  arrived = [];
  while (log.childElementCount > kEventsShown) log.lastChild.remove();
}

function addEvent(event) {
  if (arrived.push(event) === 1) requestAnimationFrame(drawEvents);
  if (arrived.length > kEventsShown) arrived.shift();
}
