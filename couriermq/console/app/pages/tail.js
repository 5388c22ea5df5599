// Everything as it happens; what could not be shown is counted, and the past can be played.
import { html, useEffect, useRef, useState } from "../view.js";
import { get, Problem, V } from "../api.js";
import { write } from "../exact.js";
import { follow } from "../live.js";
import { choose, chosen, tenant, to } from "../router.js";
import { clock, count, instant } from "../format.js";
import { Act, Copy, Empty, Failure, Head, isRoot } from "../widgets/parts.js";
import { changeText, detailText, isChange, MARKS, MESSAGE_KINDS } from "../events.js";
import { useNames } from "../load.js";
import { QueueInput } from "./queue-dialogs.js";
import { W } from "../words.js";

const KEPT = 2000, DRAWN = 400, PAGE = 500, DRAW_MS = 200;

/** The filter of the address. */
const filter = () => ({ queue: chosen("queue") ? [chosen("queue")] : undefined, kind: chosen("kind") ? chosen("kind").split(",") : undefined, principal: chosen("principal") || undefined, message: chosen("message") || undefined });

const NOTHING_LEFT_OUT = { count: 0, from: 0 };

/**
 * Events, newest first and bounded; drawn a few times a second however many come. While it is paused they wait, and what
 * is too much to wait is counted.
 * @param {boolean} paused
 */
function useEvents(paused) {
  const [rows, setRows] = useState(/** @type {any[]} */ ([]));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [waiting, setWaiting] = useState(0);
  const [leftOut, setLeftOut] = useState(NOTHING_LEFT_OUT);
  const [open, setOpen] = useState(false);
  const buffer = useRef(/** @type {any[]} */ ([]));
  const gone = useRef(NOTHING_LEFT_OUT);
  const still = useRef(paused);
  still.current = paused;
  const key = JSON.stringify([filter(), tenant.value, chosen("at"), chosen("speed")]);
  useEffect(() => {
    const timer = setInterval(() => {
      setLeftOut(gone.current);
      if (still.current) setWaiting(buffer.current.length);
      else if (buffer.current.length) {
        const news = buffer.current.splice(0);
        setWaiting(0);
        setRows((old) => [...news.reverse(), ...old].slice(0, KEPT));
      }
    }, DRAW_MS);
    return () => clearInterval(timer);
  }, []);
  const add = (row) => {
    buffer.current.push(row);
    if (buffer.current.length <= KEPT) return;
    const [oldest] = buffer.current.splice(0, 1);
    // What is not shown at once moves on; only what waits for the reader is missed.
    if (still.current) gone.current = { count: gone.current.count + (oldest.kind === "skipped" ? (oldest.count ?? 0) : 1), from: gone.current.from || oldest.at || 0 };
  };
  const forget = () => setLeftOut((gone.current = NOTHING_LEFT_OUT));
  useEffect(() => {
    buffer.current = [];
    setRows([]);
    setError(null);
    setOpen(false);
    forget();
    const at = Number(chosen("at"));
    return at ? play(at, Number(chosen("speed", "1")), add, setError, () => still.current) : watch(add, setError, () => (setOpen(true), setError((old) => (old instanceof Problem ? null : old))));
  }, [key]);
  return { rows, waiting, leftOut, error, open, forget, clear: () => setRows([]), insert: (gap, found) => setRows((old) => old.flatMap((row) => (row === gap ? found : [row])).slice(0, KEPT)) };
}

/** @param {(row: any) => void} add @param {(error: any) => void} setError @param {() => void} opened */
function watch(add, setError, opened) {
  return follow({ topics: "events", ...filter() }, {
    open: opened, refused: setError, event: add, skipped: (data, id) => add({ ...data, kind: "skipped", offset: id }),
    gone: (data) => data.reason === "trimmed" && setError(W.tail.trimmed),
  }, true);
}

/**
 * Play the journal from an instant on, at a multiple of its speed. A pause stops the clock, so no event is missed.
 * @param {number} at @param {number} speed @param {(row: any) => void} add @param {(error: any) => void} setError @param {() => boolean} isPaused
 */
function play(at, speed, add, setError, isPaused) {
  let ended = false;
  let begun = 0;
  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const hold = async () => {
    const since = Date.now();
    while (isPaused() && !ended) await wait(DRAW_MS);
    begun += Date.now() - since;
  };
  const run = async () => {
    const own = isRoot() ? { tenant: tenant.value } : {};
    let { offset: from } = await get(V("journal"), { at });
    begun = Date.now();
    while (!ended) {
      const page = await get(V("journal", "events"), { ...own, ...filter(), from, limit: PAGE, arrivals: true, bodies: false, wait_ms: 5000 });
      for (const event of page.events) {
        const due = begun + (event.at - at) / speed - Date.now();
        if (due > 0) await wait(Math.min(due, 60_000));
        if (isPaused()) await hold();
        if (ended) return;
        add(event);
      }
      from = page.next;
    }
  };
  run().catch((error) => !ended && setError(error));
  return () => (ended = true);
}

export function Page() {
  const [paused, setPaused] = useState(false);
  const [pinned, setPinned] = useState(/** @type {any[]} */ ([]));
  const { rows, waiting, leftOut, error, open, forget, clear, insert } = useEvents(paused);
  const people = useNames();
  const kinds = chosen("kind") ? chosen("kind").split(",") : [];
  const toggle = (kind) => choose({ kind: (kinds.includes(kind) ? kinds.filter((one) => one !== kind) : [...kinds, kind]).join(",") });
  const pin = (row) => setPinned((old) => (old.includes(row) ? old.filter((one) => one !== row) : [...old, row].slice(-20)));
  const fill = async (gap) => {
    const own = isRoot() ? { tenant: tenant.value } : {};
    const page = await get(V("journal", "events"), { ...own, ...filter(), from: gap.from, to: gap.to, limit: 1000, arrivals: true, bodies: false });
    const left = gap.count === null ? null : Math.max(0, gap.count - page.events.length);
    const rest = left === 0 || page.at_end || String(page.next) === String(gap.to) ? [] : [{ ...gap, from: page.next, count: left }];
    insert(gap, [...rest, ...page.events.reverse()]);
  };
  return html`
    <${Head} title=${W.tail.title} text=${W.tail.text} actions=${html`
      <${Act} icon=${paused ? "play" : "pause"} pressed=${paused} onClick=${() => setPaused(!paused)}>${paused ? W.tail.go : W.tail.hold}</${Act}>
      <${Copy} text=${() => rows.filter((row) => row.kind !== "skipped").map(write).reverse().join("\n")} label=${W.tail.copy} /><${Act} kind="plain" onClick=${clear}>${W.tail.clear}</${Act}>`} />
    <div class="card pad stack">
      <div class="fields">
        <div class="field"><label for="tail-queue">${W.tail.queue}</label><${QueueInput} id="tail-queue" value=${chosen("queue")} onInput=${(queue) => choose({ queue })} /></div>
        <${Later} id="tail-principal" label=${W.tail.principal} name="principal" options=${people} /><${Later} id="tail-message" label=${W.tail.message} name="message" />
        <${Rewind} />
      </div>
      <div class="chips" role="group" aria-label=${W.map.kind}>${MESSAGE_KINDS.map((kind) => html`<button type="button" class="chip" aria-pressed=${kinds.includes(kind)} onClick=${() => toggle(kind)}>${W.kinds[kind]}</button>`)}</div>
    </div>
    ${error && html`<${Failure} error=${error} />`}
    ${pinned.length > 0 && html`<section class="card" aria-label=${W.tail.pinned}><div class="events">${pinned.map((row) => html`<${Row} key=${String(row.offset)} row=${row} pinned=${true} pin=${pin} people=${people} />`)}</div></section>`}
    ${leftOut.count > 0 && html`<div class="note row wide" role="status"><span>${W.tail.leftOut(count(leftOut.count))}</span><span class="row">
      <button type="button" class="btn small" onClick=${() => (setPaused(false), choose({ at: leftOut.from, speed: "10" }))}>${W.tail.playLeftOut}</button>${!paused && html`<button type="button" class="btn small plain" onClick=${forget}>${W.dismiss}</button>`}</span></div>`}
    <section class="card" aria-label=${W.tail.title}>
      ${rows.length === 0 ? !error && html`<${Empty} title=${open || chosen("at") ? W.tail.waiting : W.loading} />` : html`<div class="events scroll" tabindex="0" role="log" aria-live="off" aria-label=${W.tail.title}>
        ${rows.slice(0, DRAWN).map((row) => row.kind === "skipped" ? html`<div key=${`skipped-${row.offset}`} class="event skipped">${W.tail.skipped(row.count === null ? "" : count(row.count))} <button type="button" class="btn small plain" onClick=${() => void fill(row)}>${W.tail.showSkipped}</button></div>` : html`<${Row} key=${String(row.offset)} row=${row} pinned=${pinned.includes(row)} pin=${pin} people=${people} />`)}</div>`}
      <div class="table-foot" role="status">${paused ? W.tail.held(count(waiting + leftOut.count)) : chosen("at") ? W.tail.past(instant(Number(chosen("at")))) : ""} ${W.tail.kept(count(rows.length))}</div>
    </section>`;
}

/** A field that is applied when it is left. @param {{id: string, label: string, name: string, options?: Map<string, string>}} props options: what stands for a name */
const Later = ({ id, label, name, options }) => html`<div class="field"><label for=${id}>${label}</label><input id=${id} list=${options && `${id}-list`} value=${chosen(name)} onChange=${(e) => choose({ [name]: e.target.value.trim() })} />${options && html`<datalist id=${`${id}-list`}>${[...options].map(([key, text]) => html`<option value=${key}>${text}</option>`)}</datalist>`}</div>`;

function Rewind() {
  const at = Number(chosen("at"));
  const local = at ? new Date(at - new Date(at).getTimezoneOffset() * 60_000).toISOString().slice(0, 19) : "";
  return html`<div class="field"><label for="tail-at">${W.tail.rewind}</label><div class="row" style=${{ flexWrap: "nowrap" }}>
    <input id="tail-at" type="datetime-local" step="1" value=${local} onChange=${(e) => choose({ at: e.target.value ? new Date(e.target.value).getTime() : "" })} />
    ${at > 0 && html`<select aria-label=${W.tail.speed} style=${{ width: "96px" }} value=${chosen("speed", "1")} onChange=${(e) => choose({ speed: e.target.value })}>${["1", "10", "100"].map((speed) => html`<option value=${speed} selected=${chosen("speed", "1") === speed}>${speed}×</option>`)}</select>
      <button type="button" class="btn" onClick=${() => choose({ at: "", speed: "" })}>${W.tail.now}</button>`}</div></div>`;
}

/** @param {{row: any, pinned: boolean, pin: (row: any) => void, people: Map<string, string>}} props */
function Row({ row, pinned, pin, people }) {
  return html`<div class=${`event ${pinned ? "pinned" : ""}`} data-offset=${String(row.offset)}>
    <span title=${instant(row.at, true)}>${clock(row.at, true)}</span><span><span class=${`badge ${MARKS[row.kind] ?? ""}`}>${isChange(row) ? W.change : (W.kinds[row.kind] ?? row.kind)}</span></span>
    <span class="clip">${row.queue ? html`<a href=${to(["queues", row.queue])}><bdi>${row.queue}</bdi></a>` : ""}</span>
    <span class="clip">${row.message_id && html`<a href=${to(["messages", row.message_id], { queue: row.queue, seq: row.seq === null ? "" : String(row.seq) })}>${row.message_id}</a>`} <span class="soft">${isChange(row) ? changeText(row) : detailText(row)}${row.principal && html` · <bdi title=${row.principal}>${people.get(row.principal) ?? row.principal}</bdi>`}</span></span>
    <button type="button" class="btn small plain" aria-label=${`${pinned ? W.tail.unpin : W.tail.pin} ${row.offset}`} onClick=${() => pin(row)}>${pinned ? W.tail.unpin : W.tail.pin}</button>
  </div>`;
}
