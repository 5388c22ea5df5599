// Numbers, sizes and times as people read them.
import { W } from "./words.js";
import { prefs, now } from "./store.js";

const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const whole = new Intl.NumberFormat("en");

/** @param {number | bigint | null | undefined} n */
export const count = (n) => (n === null || n === undefined ? W.none : whole.format(n));

/** 12,345 as 12.3k: for places with little room. @param {number | null | undefined} n */
export function short(n) {
  if (n === null || n === undefined) return W.none;
  for (const [size, letter] of /** @type {[number, string][]} */ ([[1e9, "G"], [1e6, "M"], [1e4, "k"]]))
    if (Math.abs(n) >= size) {
      const unit = letter === "k" ? 1e3 : size;
      return `${(n / unit).toFixed(Math.abs(n) / unit < 100 ? 1 : 0)}${letter}`;
    }
  return Number.isInteger(n) ? whole.format(n) : n.toFixed(Math.abs(n) < 10 ? 1 : 0);
}

/** Things in a second. @param {number | null | undefined} n */
export const rate = (n) => (n === null || n === undefined ? W.none : n === 0 ? "0" : n < 0.1 ? "<0.1" : short(n));

/** @param {number | null | undefined} n */
export function bytes(n) {
  if (n === null || n === undefined) return W.none;
  if (n < 1024) return `${n} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let value = n / 1024, unit = 0;
  while (value >= 1024 && unit < units.length - 1) (value /= 1024), (unit += 1);
  return `${value.toFixed(value < 10 ? 1 : 0)} ${units[unit]}`;
}

/** 90000 as "1 min 30 s". @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms === null || ms === undefined) return W.none;
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  const parts = /** @type {[number, string][]} */ ([[DAY, "d"], [HOUR, "h"], [MINUTE, "min"], [SECOND, "s"]]);
  const first = parts.findIndex(([size]) => ms >= size);
  const [size, unit] = parts[first];
  const next = parts[first + 1];
  const rest = next ? Math.floor((ms % size) / next[0]) : 0;
  const head = next ? Math.floor(ms / size) : Math.round((ms / size) * 10) / 10;
  return rest ? `${head} ${unit} ${rest} ${next[1]}` : `${head} ${unit}`;
}

/** How long ago, or until when; changes as time passes. @param {number | null | undefined} at */
export function ago(at) {
  if (!at) return W.none;
  const passed = now.value - at;
  if (Math.abs(passed) < 2 * SECOND) return W.justNow;
  const text = duration(Math.abs(passed) < MINUTE ? Math.floor(Math.abs(passed) / SECOND) * SECOND : Math.abs(passed));
  return passed > 0 ? W.ago(text) : W.inTime(text);
}

/** The age of something that still waits. @param {number | null | undefined} at */
export const age = (at) => (at ? duration(Math.max(0, Math.floor((now.value - at) / SECOND) * SECOND)) : W.none);

/** Date and time to the second or millisecond. @param {number | null | undefined} at @param {boolean} [precise] */
export function instant(at, precise = false) {
  if (!at) return W.none;
  const date = new Date(prefs.utc.value ? at : at - new Date(at).getTimezoneOffset() * MINUTE);
  const text = date.toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, precise ? 23 : 19)}${prefs.utc.value ? " UTC" : ""}`;
}

/** The time of day. @param {number} at @param {boolean} [precise] */
export const clock = (at, precise = false) => instant(at, precise).slice(11);

/** @param {string} text @param {number} length */
export const cut = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

export { SECOND, MINUTE, HOUR, DAY };
