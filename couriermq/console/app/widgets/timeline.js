// Lanes for queues, bars for waiting and leases, marks for events; long silences are folded.
import { html } from "../view.js";
import { clock, duration } from "../format.js";
import { now } from "../store.js";
import { MARKS, detailText } from "../events.js";
import { W } from "../words.js";

const FOLD = 10, LEAST = 0.012;

/**
 * A scale from instants to percent in which silences longer than ten times the median gap take only that much room.
 * @param {number[]} instants in order
 */
export function folded(instants) {
  const times = [...new Set(instants)].sort((a, b) => a - b);
  const gaps = times.slice(1).map((at, i) => at - times[i]);
  const median = [...gaps].sort((a, b) => a - b)[Math.floor(gaps.length / 2)] || 1;
  const longest = median * FOLD;
  const widths = gaps.map((gap) => Math.min(gap, longest));
  const sum = widths.reduce((a, b) => a + b, 0) || 1;
  const shares = widths.map((width) => Math.max(LEAST, width / sum));
  const total = shares.reduce((a, b) => a + b, 0) || 1;
  const places = [0];
  for (const share of shares) places.push(places[places.length - 1] + (share / total) * 100);
  const folds = gaps.map((gap, i) => ({ gap, at: (places[i] + places[i + 1]) / 2, room: places[i + 1] - places[i] })).filter((one) => one.gap > longest);
  const place = (at) => {
    const i = times.findIndex((time) => time >= at);
    if (i <= 0) return i === 0 ? 0 : 100;
    return places[i - 1] + ((at - times[i - 1]) / (times[i] - times[i - 1])) * (places[i] - places[i - 1]);
  };
  return { place, folds };
}

/**
 * What the message was in which lane: bars from instant to instant.
 * @param {any[]} events @param {boolean} live @param {number} end
 */
export function barsOf(events, live, end) {
  /** @type {{lane: string, kind: string, from: number, to: number}[]} */
  const bars = [];
  /** @type {Map<string, {kind: string, from: number, until?: number}>} */
  const current = new Map();
  const close = (lane, at) => {
    const bar = current.get(lane);
    if (!bar) return;
    current.delete(lane);
    if (bar.kind === "delayed" && bar.until !== undefined && bar.until < at) bars.push({ lane, kind: "delayed", from: bar.from, to: bar.until }, { lane, kind: "waiting", from: bar.until, to: at });
    else bars.push({ lane, kind: bar.kind, from: bar.from, to: at });
  };
  const wait = (lane, at, delay) => current.set(lane, delay ? { kind: "delayed", from: at, until: at + delay } : { kind: "waiting", from: at });
  for (const event of events) {
    const lane = event.queue_id;
    if (event.kind === "extended" || event.kind === "published") continue;
    close(lane, event.at);
    if (event.kind === "received") current.set(lane, { kind: "leased", from: event.at });
    else if (event.kind === "sent" || event.kind === "released" || event.kind === "lease_expired") wait(lane, event.at, event.detail?.delay_ms ?? 0);
    else if (event.detail?.target_id) wait(event.detail.target_id, event.at, event.detail.delay_ms ?? 0);
  }
  if (live) for (const lane of [...current.keys()]) close(lane, end);
  return bars;
}

/** @param {{data: any}} props */
export function Timeline({ data }) {
  const live = data.message !== null;
  const times = data.events.map((event) => event.at);
  const end = live ? Math.max(now.value, ...times) : Math.max(...times);
  const bars = barsOf(data.events, live, end);
  const { place, folds } = folded([...times, ...bars.map((bar) => bar.to), end]);
  return html`<div class="lanes" role="group" aria-label=${W.timeline.picture}>
    ${data.lanes.map((lane) => html`<div class="lane" key=${lane.queue_id}>
      <div class="tight"><bdi class="clip">${lane.listener ?? lane.queue}</bdi><span class="hint">${W.timeline.roles[lane.role]}</span></div>
      <div class="track">
        ${folds.map((fold) => html`<span class="fold" style=${{ left: `${fold.at}%` }}></span>`)}
        ${bars.filter((bar) => bar.lane === lane.queue_id).map((bar) => html`<i class=${bar.kind} title=${`${W.timeline[/** @type {"waiting"} */ (bar.kind)]} ${duration(bar.to - bar.from)}`} style=${{ left: `${place(bar.from)}%`, width: `${Math.max(0.3, place(bar.to) - place(bar.from))}%` }}></i>`)}
        ${data.events.filter((event) => event.queue_id === lane.queue_id).map((event) => html`<a key=${String(event.offset)} href=${`#event-${event.offset}`} class=${MARKS[event.kind] ?? ""} style=${{ left: `${place(event.at)}%` }}
          title=${`${W.kinds[event.kind] ?? event.kind} ${clock(event.at, true)} ${detailText(event)}`} onClick=${jump}><span class="out">${W.kinds[event.kind] ?? event.kind}, ${clock(event.at)}</span></a>`)}
      </div>
    </div>`)}
    ${folds.length > 0 && html`<div class="lane"><span></span><div class="folds">${folds.map((fold) => html`<span style=${{ left: `${fold.at}%` }}>${W.timeline.later(duration(fold.gap))}</span>`)}</div></div>`}
  </div>`;
}

/** @param {any} event */
function jump(event) {
  event.preventDefault();
  document.getElementById(event.currentTarget.getAttribute("href").slice(1))?.scrollIntoView({ block: "center" });
}
