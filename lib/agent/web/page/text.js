// SPDX-License-Identifier: Apache-2.0
// Elements and texts for the other scripts of the page. Inserts strings as text nodes only, never
// as HTML.
"use strict";

const kDigits = 4;  // significant digits of a number

const byId = (id) => document.getElementById(id);

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

function counted(count, noun, plural = `${noun}s`) {
  return `${count} ${count === 1 ? noun : plural}`;
}

function percent(fraction) {
  return `${Math.round(100 * fraction)} %`;
}

// A number that a worker reported; "nan" and "inf" are strings.
function rounded(number) {
  return typeof number === "number" ? String(Number(number.toPrecision(kDigits))) : String(number);
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  for (; count >= 1024 && at < units.length - 1; at++) count /= 1024;
  return `${count < 10 && at > 0 ? count.toFixed(1) : Math.round(count)} ${units[at]}`;
}

function duration(seconds) {
  if (seconds >= 60) return span(seconds);
  return seconds >= 1 ? `${rounded(Number(seconds.toPrecision(3)))} s`
                      : `${rounded(Number((1000 * seconds).toPrecision(3)))} ms`;
}

// "3, 5 and 7", or the first ones and the number of the others.
function listed(items, limit = 8) {
  const shown = items.slice(0, limit);
  if (items.length > limit) return `${shown.join(", ")} and ${items.length - limit} more`;
  return shown.length < 2 ? shown.join() : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

function ranksText(ranks) {
  return `${ranks.length === 1 ? "rank" : "ranks"} ${listed(ranks)}`;
}

// Replaces the text only if it differs, so that nothing is laid out again in vain.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
