// Look at messages without leasing them.
import { html, useEffect, useRef, useState } from "../view.js";
import { address, ask, get, post, Q } from "../api.js";
import { choose, chosen, tenant, to } from "../router.js";
import { barred, held } from "../store.js";
import { bytes, count } from "../format.js";
import { Act, Copy, Empty, Failure, Find, Loading, State, Time } from "../widgets/parts.js";
import { Attributes, Body, preview } from "../widgets/body.js";
import { Table } from "../widgets/table.js";
import { Confirm, open } from "../widgets/dialog.js";
import { attempt, tell } from "../widgets/toast.js";
import { edit, editBarred, Operate } from "./queue-dialogs.js";
import { W } from "../words.js";

const PAGE = 100;

/** The filter of the address as the API takes it. */
function filter() {
  const attribute = chosen("attribute");
  return { state: chosen("state") || undefined, contains: chosen("contains") || undefined, id: chosen("id") || undefined,
    attribute: attribute ? attribute.split("\n") : undefined, group: chosen("group") || undefined, attempts_min: chosen("attempts") || undefined,
    reason: chosen("reason") || undefined, source_queue: chosen("source") || undefined };
}

/** The same for an operation. */
function where() {
  const { state, contains, attribute, group, attempts_min, reason, source_queue } = filter();
  return JSON.parse(JSON.stringify({ state: state ? [state] : undefined, contains, attribute, group, reason, source_queue, attempts_min: attempts_min ? Number(attempts_min) : undefined }));
}

/** @param {{name: string, queue: any, live: any}} props */
export function Tab({ name, queue, live }) {
  const off = barred("browse", name, queue?.id);
  const query = { ...filter(), order: chosen("order", "oldest") === "newest" ? "newest" : undefined };
  const key = JSON.stringify(query) + tenant.value + name;
  const [state, set] = useState(/** @type {any} */ ({ rows: null, next: null, looked: 0, error: null, busy: false }));
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const load = async (old, signal) => {
    set({ ...old, busy: true });
    try {
      const page = await get(Q(name, "messages"), { ...query, limit: PAGE, preview_bytes: 256, after: old.next }, signal);
      set({ rows: [...(old.rows ?? []), ...page.messages], next: page.next, looked: old.looked + (page.looked_count ?? page.messages.length), error: null, busy: false });
    } catch (error) {
      if (!signal?.aborted) set({ ...old, error, busy: false });
    }
  };
  const fresh = { rows: null, next: null, looked: 0, error: null };
  const total = live.row ? live.row.ready_count + live.row.delayed_count + live.row.leased_count : null;
  const changes = live.row ? `${total}/${live.row.leased_count}/${live.row.ready_count}` : "";
  useEffect(() => {
    if (off) return undefined;
    const stop = new AbortController();
    set(fresh);
    setSelected(new Set());
    void load(fresh, stop.signal);
    return () => stop.abort();
  }, [key, off]);
  // The first page follows what happens; what was read further down stays.
  useEffect(() => {
    if (off || held.value || !state.rows || state.rows.length > PAGE || query.contains) return undefined;
    const stop = new AbortController();
    get(Q(name, "messages"), { ...query, limit: PAGE, preview_bytes: 256 }, stop.signal).then((page) => set((old) => ({ ...old, rows: page.messages, next: page.next, looked: page.looked_count ?? 0 })), () => {});
    return () => stop.abort();
  }, [changes, state.rows === null]);
  if (off) return html`<${Failure} error=${off} />`;
  const rows = state.rows ?? [];
  const openSeq = chosen("seq");
  const shown = rows.find((row) => String(row.seq) === openSeq);
  const filtered = Object.values(filter()).some(Boolean);
  return html`
    <${Filters} />
    <p class="hint">${W.messages.noLease}</p>
    <${Bulk} name=${name} selected=${selected} filtered=${filtered} rows=${rows} clear=${() => setSelected(new Set())} done=${() => void load(fresh, undefined)} />
    ${state.error && html`<${Failure} error=${state.error} />`}
    <div class=${shown ? "split" : ""}>
      <div class="card">
        ${state.rows === null ? html`<${Loading} />` : rows.length === 0 ? html`<${Empty} title=${filtered ? W.messages.noMatch : W.messages.none} text=${filtered ? W.messages.looked(count(state.looked), total === null ? "" : count(total)) : W.messages.noneText} />` : html`
        <${Table} label=${W.messages.title} columns=${columns(shown)} rows=${rows} keyOf=${(row) => String(row.seq)} here=${openSeq} selected=${selected}
          onSelect=${(seq) => { const next = new Set(selected); if (!next.delete(seq)) next.add(seq); setSelected(next); }}
          onOpen=${(row) => choose({ seq: String(row.seq) === openSeq ? "" : String(row.seq) })} />`}
        <div class="table-foot" role="status"><span>${W.messages.shown(count(rows.length))} · ${W.messages.looked(count(state.looked), total === null ? "" : count(total))}</span>
          ${state.next !== null && html`<button type="button" class="btn small" disabled=${state.busy} onClick=${() => void load(state, undefined)}>${state.busy ? W.working : W.messages.goOn}</button>`}</div>
      </div>
      ${shown && html`<${Panel} key=${openSeq} name=${name} row=${shown} reload=${() => void load(fresh, undefined)} />`}
    </div>`;
}

/** @param {any} narrow @returns {import("../widgets/table.js").Column[]} */
const columns = (narrow) => [
  { key: "id", label: "id", width: "minmax(110px, 1fr)", cell: (row) => html`<a class="mono" href=${to(["messages", row.id], { queue: chosenQueue(), seq: String(row.seq) })} onClick=${(e) => e.stopPropagation()}>${row.id}</a>` },
  { key: "state", label: W.column.state, width: "86px", cell: (row) => html`<${State} state=${row.state} />` },
  { key: "sent", label: W.kinds.sent, width: "112px", cell: (row) => html`<${Time} at=${row.sent_at} />` },
  { key: "attempts", label: W.column.attempts, width: "70px", num: true, cell: (row) => count(row.attempts) },
  { key: "size", label: W.column.size, width: "70px", num: true, cell: (row) => bytes(row.size) },
  ...(narrow ? [] : [{ key: "why", label: W.column.death, width: "130px", cell: (row) => row.death ? html`<span class="bad">${W.reasons[row.death.reason] ?? row.death.reason}</span>` : html`<span class="soft">${W.none}</span>` }]),
  { key: "body", label: W.body.title, width: "minmax(180px, 2fr)", cell: (row) => html`<bdi class="mono">${preview(row)}</bdi>` },
];
const chosenQueue = () => decodeURIComponent(window.location.pathname.split("/queues/")[1]?.split("/")[0] ?? "");

const STATES = ["", "ready", "delayed", "leased"];

function Filters() {
  const [text, setText] = useState(chosen("contains"));
  useEffect(() => {
    const timer = setTimeout(() => text !== chosen("contains") && choose({ contains: text, seq: "" }), 350);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<div class="row">
    <${Find} value=${text} label=${W.messages.find} onInput=${setText} />
    <div class="chips" role="group" aria-label=${W.column.state}>${STATES.map((one) => html`<button type="button" class="chip" aria-pressed=${chosen("state") === one} onClick=${() => choose({ state: one, seq: "" })}>${one ? W.states[one] : W.all}</button>`)}</div>
    <input class="attribute" aria-label=${W.messages.attribute} placeholder=${W.messages.attribute} style=${{ width: "190px" }} value=${chosen("attribute")} onChange=${(e) => choose({ attribute: e.target.value, seq: "" })} />
    <${Act} kind="small" pressed=${chosen("order") === "newest"} onClick=${() => choose({ order: chosen("order") === "newest" ? "" : "newest", seq: "" })}>${W.messages.newest}</${Act}>
    ${["id", "group", "reason", "source"].filter((one) => chosen(one)).map((one) => html`<button type="button" class="chip" aria-pressed="true" onClick=${() => choose({ [one]: "" })}>${one}: ${chosen(one)} ×</button>`)}
  </div>`;
}

/** @param {{name: string, selected: Set<string>, filtered: boolean, rows: any[], clear: () => void, done: () => void}} props */
function Bulk({ name, selected, filtered, rows, clear, done }) {
  if (!selected.size && !filtered) return null;
  const off = barred("manage", name);
  const chosenRows = rows.filter((row) => selected.has(String(row.seq)));
  const condition = selected.size ? { seqs: chosenRows.map((row) => row.seq) } : where();
  const dead = rows.some((row) => row.death);
  const run = (verb) => open(Operate, { verb, queue: name, where: condition, ask: verb === "redrive" });
  return html`<div class="row" role="group" aria-label=${W.bulk.label}><span class="soft">${selected.size ? W.bulk.selectedMessages(selected.size) : W.bulk.allMessages}</span>
    ${dead && html`<${Act} kind="small primary" barred=${off} onClick=${() => run("redrive")}>${W.verbs.redrive}</${Act}>`}
    ${["move", "resend", "remove"].map((verb) => html`<${Act} kind="small" barred=${off} onClick=${() => run(verb)}>${W.verbs[verb]}</${Act}>`)}
    ${selected.size > 0 && html`<${Act} kind="small plain" onClick=${clear}>${W.bulk.clear}</${Act}>`}
    <${Act} kind="small plain" icon="refresh" label=${W.reload} onClick=${done} /></div>`;
}

/** @param {{name: string, row: any, reload: () => void}} props */
function Panel({ name, row, reload }) {
  const [message, setMessage] = useState(row);
  const [whole, setWhole] = useState(!row.body_truncated);
  useEffect(() => setMessage(row), [row.state, row.attempts]);
  const path = Q(name, "messages", row.id);
  // On small screens the panel stands below the list.
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (window.matchMedia("(max-width: 1080px)").matches) box.current?.scrollIntoView();
  }, []);
  const fetchWhole = async () => (setMessage(await get(path)), setWhole(true));
  const manage = barred("manage", name);
  const remove = () => open(Confirm, { title: W.messages.removeTitle, text: W.messages.removeText(row.id), verb: W.verbs.remove, act: async () => (await post(Q(name, "remove"), { seqs: [row.seq] }), tell(W.messages.removed), choose({ seq: "" }), reload()) });
  const cancel = () => open(Confirm, { title: W.messages.cancelTitle, text: W.messages.cancelText(row.id), verb: W.verbs.cancel, act: async () => (await ask("DELETE", path), tell(W.messages.removed), choose({ seq: "" }), reload()) });
  return html`<section class="card panel" ref=${box} aria-label=${W.messages.panel}>
    <header><h2 class="mono clip">${row.id}</h2><${Act} kind="plain small" icon="close" label=${W.close} onClick=${() => choose({ seq: "" })} /></header>
    <div class="pad stack">
      <div class="row"><a class="btn small" href=${to(["messages", row.id], { queue: name, seq: String(row.seq) })}>${W.messages.timeline}</a>
        ${row.death && html`<${Act} kind="small primary" barred=${manage} onClick=${() => open(Operate, { verb: "redrive", queue: name, where: { seqs: [row.seq] }, ask: true })}>${W.verbs.redrive}</${Act}>`}
        <${Act} kind="small" barred=${editBarred(name, row)} onClick=${() => void attempt(() => edit(name, message))}>${W.messages.edit}</${Act}>
        <${Act} kind="small" barred=${manage} onClick=${() => open(Operate, { verb: "move", queue: name, where: { seqs: [row.seq] } })}>${W.verbs.move}</${Act}>
        <${Act} kind="small" barred=${barred("send", name) || (row.attempts ? W.messages.tooLate : "")} onClick=${cancel}>${W.verbs.cancel}</${Act}>
        <${Act} kind="small" barred=${manage} onClick=${remove}>${W.verbs.remove}</${Act}></div>
      <dl class="kv">
        <dt>${W.column.state}</dt><dd><${State} state=${row.state} /></dd>
        <dt>seq</dt><dd class="mono">${String(row.seq)}</dd>
        <dt>${W.column.contentType}</dt><dd class="mono">${row.content_type}</dd>
        <dt>${W.kinds.sent}</dt><dd><${Time} at=${row.sent_at} kind="exact" /></dd>
        ${row.state !== "ready" && html`<dt>${row.state === "leased" ? W.column.leaseEnds : W.column.due}</dt><dd><${Time} at=${row.due_at} /></dd>`}
        <dt>${W.column.discard}</dt><dd><${Time} at=${row.discard_at} /></dd>
        <dt>${W.column.attempts}</dt><dd>${count(row.attempts)}</dd>
        ${row.group && html`<dt>${W.group}</dt><dd><bdi>${row.group}</bdi></dd>`}
        ${row.death && html`<dt>${W.column.death}</dt><dd class="bad">${W.died(W.reasons[row.death.reason] ?? row.death.reason, row.death.source_queue, row.death.attempts)}</dd>`}
        ${row.trace && html`<dt>${W.trace}</dt><dd class="mono">${row.trace}</dd>`}
      </dl>
      <div class="tight"><h3>${W.body.title}</h3><${Body} key=${whole} message=${message} download=${`${address(path)}?download=true`} />
        ${!whole && html`<div><button type="button" class="btn small" onClick=${fetchWhole}>${W.body.load(bytes(row.size))}</button></div>`}</div>
      <div class="tight"><h3>${W.attributes}</h3><${Attributes} attributes=${row.attributes} /></div>
      <div><${Copy} text=${window.location.origin + to(["messages", row.id], { queue: name, seq: String(row.seq) })} label=${W.copyLink} /></div>
    </div>
  </section>`;
}
