// The whole life of one message, and the message as each client sees it.
import { html, useEffect, useState } from "../view.js";
import { address, get, Q, T } from "../api.js";
import { useAnswer, useNames } from "../load.js";
import { choose, chosen, parts, tenant, to } from "../router.js";
import { barred, who } from "../store.js";
import { count, duration, instant, clock } from "../format.js";
import { Act, Copy, Empty, Failure, Head, Loading, State, Time } from "../widgets/parts.js";
import { Attributes, Body, HiddenBody } from "../widgets/body.js";
import { Timeline } from "../widgets/timeline.js";
import { open } from "../widgets/dialog.js";
import { detailText, MARKS } from "../events.js";
import { attempt } from "../widgets/toast.js";
import { edit, editBarred, Operate } from "./queue-dialogs.js";
import { W } from "../words.js";

export function Page() {
  const id = parts.value[1];
  return html`<${Message} key=${`${tenant.value}/${id}`} id=${id} />`;
}

/** The timeline, read further back as asked. @param {string} id */
function useTimeline(id) {
  const [state, set] = useState(/** @type {any} */ ({ data: null, error: null, busy: false }));
  const query = { queue: chosen("queue"), seq: chosen("seq") };
  const load = async (old) => {
    set({ ...state, busy: true });
    try {
      const page = await get(T("messages", id, "timeline"), { ...query, before: old?.next });
      set({ error: null, busy: false, data: old ? { ...page, message: old.message ?? page.message, events: merged(page.events, old.events), lanes: lanesOf(old.lanes, page.lanes), looked: { ...page.looked, to_at: old.looked.to_at, event_count: old.looked.event_count + page.looked.event_count } } : page });
    } catch (error) {
      set((now) => ({ ...now, error, busy: false }));
    }
  };
  useEffect(() => {
    void load(null);
    const timer = setInterval(() => !document.hidden && !chosenBefore.has(id) && void get(T("messages", id, "timeline"), query).then((data) => set((old) => (old.data && old.data.events.length > data.events.length ? old : { ...old, data })), () => {}), 3000);
    return () => clearInterval(timer);
  }, [id]);
  return { ...state, more: () => (chosenBefore.add(id), load(state.data)) };
}
/** Messages whose past was read in several steps; these are not read anew. @type {Set<string>} */
const chosenBefore = new Set();

/** @param {any[]} older @param {any[]} newer */
function merged(older, newer) {
  const known = new Set(newer.map((event) => String(event.offset)));
  return [...older.filter((event) => !known.has(String(event.offset))), ...newer];
}

/** @param {any[]} a @param {any[]} b */
const lanesOf = (a, b) => [...a, ...b.filter((lane) => !a.some((one) => one.queue_id === lane.queue_id))];

/** @param {{id: string}} props */
function Message({ id }) {
  const { data, error, busy, more } = useTimeline(id);
  if (!data) return html`<${Head} title=${id} />${error ? html`<${Failure} error=${error} />` : html`<${Loading} />`}`;
  const message = data.message;
  const last = data.events.at(-1);
  const home = message ? currentQueue(data) : null;
  return html`
    <${Head} title=${html`<span class="crumb">${W.timeline.title}</span> <bdi class="mono">${id}</bdi>`}
      text=${html`<span class="row">${message ? html`<${State} state=${message.state} /> ${home && html`<a href=${to(["queues", home])}><bdi>${home}</bdi></a>`}` : last && html`<span class=${`badge ${MARKS[last.kind]}`}>${W.kinds[last.kind]}</span>`}</span>`}
      actions=${html`<${Copy} text=${window.location.href} label=${W.copyLink} />
        ${message && home && html`<${Act} barred=${editBarred(home, message)} onClick=${() => void attempt(() => edit(home, message))}>${W.messages.edit}</${Act}>
          <${Act} barred=${barred("manage", home)} onClick=${() => open(Operate, { verb: "move", queue: home, where: { seqs: [message.seq] } })}>${W.verbs.move}</${Act}>
          ${message.death && html`<${Act} kind="primary" barred=${barred("manage", home)} onClick=${() => open(Operate, { verb: "redrive", queue: home, where: { seqs: [message.seq] }, ask: true })}>${W.verbs.redrive}</${Act}>`}`}`} />
    ${error && html`<${Failure} error=${error} />`}
    <section class="card"><header><h2>${W.timeline.life}</h2><span class="legend"><span><span class="dot delayed"></span>${W.timeline.delayed}</span><span><span class="dot ready"></span>${W.timeline.waiting}</span><span><span class="dot leased"></span>${W.timeline.leased}</span></span></header>
      ${data.events.length ? html`<${Timeline} data=${data} />` : html`<${Empty} title=${W.timeline.none} text=${W.timeline.noneText} />`}
      <div class="table-foot"><span>${data.complete ? W.timeline.complete : W.timeline.looked(count(data.looked.event_count), instant(data.looked.from_at))}</span>
        ${data.next !== null && html`<button type="button" class="btn small" disabled=${busy} onClick=${more}>${busy ? W.working : W.timeline.more}</button>`}</div>
    </section>
    <div class="columns main-aside">
      <section class="card" hidden=${!last}><header><h2>${W.timeline.events}</h2></header><${Events} events=${data.events} lanes=${data.lanes} /></section>
      <div class="stack">${message && html`<section class="card"><header><h2>${W.body.title}</h2></header><div class="pad"><${Body} key=${String(message.seq)} message=${message} download=${home ? `${address(Q(home, "messages", id))}?download=true` : undefined} /></div></section>
        <section class="card"><header><h2>${W.attributes}</h2></header><div class="pad stack"><${Attributes} attributes=${message.attributes} /><${Facts} message=${message} /></div></section>`}</div>
    </div>
    ${message && home ? html`<${Dialects} id=${id} queue=${home} />` : last && html`<p class="hint">${W.timeline.notLive}</p>`}`;
}

/** The queue that the message is in now. @param {any} data */
function currentQueue(data) {
  const last = [...data.events].reverse().find((event) => !String(event.queue ?? "").startsWith("~"));
  return last?.detail?.target ?? last?.queue ?? (chosen("queue") || null);
}

/** @param {{message: any}} props */
const Facts = ({ message }) => html`<dl class="kv">
  <dt>seq</dt><dd class="mono">${String(message.seq)}</dd><dt>${W.column.contentType}</dt><dd class="mono">${message.content_type}</dd>
  <dt>${W.column.attempts}</dt><dd>${count(message.attempts)}</dd><dt>${W.column.discard}</dt><dd><${Time} at=${message.discard_at} /></dd>
  ${message.death && html`<dt>${W.column.death}</dt><dd class="bad">${W.died(W.reasons[message.death.reason] ?? message.death.reason, message.death.source_queue, message.death.attempts)}</dd>`}
  ${message.trace && html`<dt>${W.trace}</dt><dd class="mono">${message.trace}</dd>`}
</dl>`;

/** @param {{events: any[], lanes: any[]}} props */
function Events({ events, lanes }) {
  const names = new Map(lanes.map((lane) => [lane.queue_id, lane.listener ?? lane.queue]));
  const people = useNames();
  return html`<div class="scroll whole" tabindex="0" role="region" aria-label=${W.timeline.events}><table class="plain"><tbody>${events.map((event, i) => html`<tr key=${String(event.offset)} id=${`event-${event.offset}`}>
    <td class="mono" title=${instant(event.at, true)}>${clock(event.at, true)}</td><td class="num soft">${i ? `+${duration(event.at - events[i - 1].at)}` : ""}</td>
    <td><span class=${`badge ${MARKS[event.kind] ?? ""}`}>${W.kinds[event.kind] ?? event.kind}</span></td><td><bdi>${names.get(event.queue_id) ?? event.queue}</bdi></td>
    <td class="detail">${detailText(event)}</td><td class="soft" title=${event.principal ?? ""}><bdi class="holder clip">${people.get(event.principal) ?? event.principal ?? ""}</bdi></td></tr>`)}</tbody></table></div>`;
}

/** @param {{id: string, queue: string}} props */
function Dialects({ id, queue }) {
  const off = barred("browse", queue);
  const [shown, setShown] = useState(!who.value?.hide_bodies);
  const { data, error } = useAnswer(off || !shown ? null : Q(queue, "messages", id, "dialects"));
  if (off) return null;
  const names = Object.keys(W.timeline.dialectNames);
  const at = chosen("dialect", "native");
  return html`<section class="card"><header><div><h2>${W.timeline.dialects}</h2><p class="hint">${W.timeline.dialectsText}</p></div></header>
    <div class="tabs" role="tablist" aria-label=${W.timeline.dialects}>${names.map((name) => html`<button type="button" role="tab" id=${`tab-${name}`} aria-controls="dialect" aria-selected=${name === at} onClick=${() => choose({ dialect: name })}>${W.timeline.dialectNames[name]}</button>`)}</div>
    <div class="pad" role="tabpanel" id="dialect" aria-labelledby=${`tab-${at}`}>
      ${error && html`<${Failure} error=${error} />`}
      ${!shown && html`<${HiddenBody} show=${() => setShown(true)} />`}
      ${data && html`<div class="two"><div class="tight">${data.dialects[at] === null || data.dialects[at] === undefined ? html`<p class="soft">${W.timeline.notShown}</p>` : html`<pre class="code" tabindex="0"><${Highlighted} value=${data.dialects[at]} others=${names.filter((name) => name !== at).map((name) => data.dialects[name])} /></pre>`}</div>
        <div class="tight">${(data.curl[at] ?? []).map((one) => html`<h3>${one.verb}</h3><pre class="code fixed" tabindex="0">${one.command}</pre><div><${Copy} text=${one.command} /></div>`)}</div></div>`}
    </div></section>`;
}

/** JSON with the fields that no other client sees in colour. @param {{value: any, others: any[]}} props */
function Highlighted({ value, others }) {
  const known = new Set(others.flatMap((one) => (one && typeof one === "object" ? Object.keys(one) : [])));
  const lines = Object.entries(value);
  return html`${"{\n"}${lines.map(([key, item], i) => html`${"  "}<span class=${known.has(key) ? "" : "accent-text"}>${JSON.stringify(key)}</span>: ${pretty(item)}${i < lines.length - 1 ? ",\n" : "\n"}`)}${"}"}`;
}

/** @param {any} value */
function pretty(value) {
  const raw = /** @type {any} */ (JSON).rawJSON;
  return JSON.stringify(value, (_key, item) => (typeof item === "bigint" ? raw(item.toString()) : item), 2).replaceAll("\n", "\n  ");
}
