// Are deliveries well? Each attempt with what the receiver answered, and ways to deliver again.
import { html, useMemo, useState } from "../view.js";
import { post, Q, remove, T } from "../api.js";
import { useAnswer } from "../load.js";
import { go, parts, tenant, to } from "../router.js";
import { barred } from "../store.js";
import { count, duration } from "../format.js";
import { Act, Copy, Empty, Failure, Head, Loading, Stat, Time } from "../widgets/parts.js";
import { Chart } from "../widgets/chart.js";
import { Table } from "../widgets/table.js";
import { Confirm, FormDialog, Frame, open } from "../widgets/dialog.js";
import { attempt, tell } from "../widgets/toast.js";
import { Field, QueueInput } from "./queue-dialogs.js";
import { W } from "../words.js";

export function Page() {
  const id = parts.value[1];
  return id === undefined ? html`<${List} />` : html`<${Listener} key=${`${tenant.value}/${id}`} id=${id} />`;
}

/** @type {Record<string, string>} */
const LEVEL = { active: "good", paused: "warning", disabled: "critical" };
/** @param {any} health */
const success = (health) => (health.success_count + health.failure_count ? `${Math.round((health.success_count / (health.success_count + health.failure_count)) * 100)} %` : W.none);

/** @type {import("../widgets/table.js").Column[]} */
const COLUMNS = [
  { key: "name", label: W.column.name, width: "minmax(130px, 1fr)", cell: (one) => html`<a href=${to(["listeners", one.id])}><bdi>${one.name}</bdi></a>` },
  { key: "queue", label: W.listeners.queue, width: "minmax(110px, 1fr)", cell: (one) => html`<a href=${to(["queues", one.queue])}><bdi>${one.queue}</bdi></a>` },
  { key: "state", label: W.listeners.state, width: "96px", cell: (one) => html`<span class=${`badge ${LEVEL[one.state]}`}>${W.states[one.state] ?? one.state}</span>` },
  { key: "breaker", label: W.listeners.breaker, width: "150px", cell: (one) => W.listeners.breakers[one.health.breaker] ?? one.health.breaker },
  { key: "success", label: W.listeners.success, width: "76px", num: true, cell: (one) => success(one.health) },
  { key: "waiting", label: W.listeners.waiting, width: "76px", num: true, cell: (one) => count(one.counters.waiting_count) },
  { key: "dead", label: W.listeners.dead, width: "96px", num: true, cell: (one) => count(one.counters.dead_letter_count) },
  { key: "last", label: W.listeners.lastFailure, width: "120px", num: true, cell: (one) => html`<${Time} at=${one.health.last_failure_at} />` },
  { key: "url", label: W.listeners.url, width: "minmax(180px, 2fr)", cell: (one) => html`<span class="mono">${one.url}</span>` },
];

function List() {
  const { data, error } = useAnswer(T("listeners"), { limit: 1000 }, 3000);
  return html`<${Head} title=${html`${W.listeners.title} <span class="term">${W.listeners.common}</span>`} text=${W.listeners.text} actions=${html`<${Act} kind="primary" icon="plus" barred=${barred("manage")} onClick=${() => open(Create)}>${W.listeners.create}</${Act}>`} />
    ${error && html`<${Failure} error=${error} />`}
    <div class="card">${!data ? !error && html`<${Loading} />` : data.listeners.length === 0 ? html`<${Empty} title=${W.listeners.none} />` : html`<${Table} label=${W.listeners.title} columns=${COLUMNS} rows=${data.listeners} keyOf=${(one) => one.id} href=${(one) => to(["listeners", one.id])} />`}</div>`;
}

function Create() {
  const [form, setForm] = useState({ name: "", queue: "", url: "" });
  const set = (key) => (e) => setForm({ ...form, [key]: e.target.value });
  const act = async () => {
    const made = await post(Q(form.queue, "listeners"), { name: form.name, url: form.url });
    go(to(["listeners", made.id]));
    if (made.secret) setTimeout(() => open(Secret, { secret: made.secret }));
  };
  return html`<${FormDialog} title=${W.listeners.create} verb=${W.create.verb} act=${act}>
    <${Field} id="listener-name" label=${W.listeners.name}><input id="listener-name" required value=${form.name} onInput=${set("name")} /></${Field}>
    <${Field} id="listener-queue" label=${W.listeners.queue}><${QueueInput} id="listener-queue" required=${true} value=${form.queue} onInput=${(queue) => setForm({ ...form, queue })} /></${Field}>
    <${Field} id="listener-url" label=${W.listeners.url}><input id="listener-url" type="url" required value=${form.url} onInput=${set("url")} /></${Field}></${FormDialog}>`;
}

/** @param {{secret: string}} props */
const Secret = ({ secret }) => html`<${Frame} title=${W.listeners.secret}><div class="content"><p>${W.listeners.secretOnce}</p><pre class="code" tabindex="0">${secret}</pre><div><${Copy} text=${secret} /></div>
  <h3>${W.listeners.verify}</h3><pre class="code fixed" tabindex="0">${`from standardwebhooks import Webhook\n\nmessage = Webhook(os.environ["COURIER_WEBHOOK_SECRET"]).verify(request.body, request.headers)`}</pre></div></${Frame}>`;

/** @param {{id: string}} props */
function Listener({ id }) {
  const { data: list, error, reload } = useAnswer(T("listeners"), { limit: 1000 }, 2000);
  const one = list?.listeners.find((item) => item.id === id || item.name === id);
  const path = one ? ["listeners", one.id] : [];
  const { data: log, reload: again } = useAnswer(one ? Q(one.queue, ...path, "deliveries") : null, { limit: 100 }, 2000);
  if (!one) return html`<${Head} title=${id} />${error || list ? html`<${Failure} error=${error ?? W.noSuchPage} />` : html`<${Loading} />`}`;
  const off = barred("manage", one.queue, one.queue_id);
  const call = (verb, body, done) => attempt(() => post(Q(one.queue, ...path, verb), body), done).then((answer) => (reload(), again(), answer));
  const replay = () => open(Confirm, { title: W.listeners.replayMissed, text: W.listeners.replayText, verb: W.verbs.replay, act: async () => (tell(W.listeners.replayed(await post(Q(one.queue, ...path, "replay"), { missed: true }))), again()) });
  const rotate = () => open(Confirm, { title: W.listeners.rotate, text: W.listeners.rotateText, verb: W.listeners.rotate, act: async () => { const made = await post(Q(one.queue, ...path, "rotate-secret"), {}); setTimeout(() => open(Secret, { secret: made.secret ?? "" })); } });
  const drop = () => open(Confirm, { title: W.listeners.deleteTitle(one.name), text: W.listeners.deleteText, verb: W.listeners.deleteIt, type: one.name, act: async () => (await remove(Q(one.queue, ...path)), go(to(["listeners"]))) });
  const active = one.state === "active";
  return html`<${Head} title=${html`<a class="crumb" href=${to(["listeners"])}>${W.listeners.title}</a> <span class="crumb" aria-hidden="true">/</span> <bdi>${one.name}</bdi> <span class=${`badge ${LEVEL[one.state]}`}>${W.states[one.state] ?? one.state}</span>`}
      text=${html`<span class="mono">${one.url}</span> · <a href=${to(["queues", one.queue])}><bdi>${one.queue}</bdi></a>`}
      actions=${html`<${Act} kind="primary" barred=${off} onClick=${replay}>${W.listeners.replayMissed}</${Act}><${Act} barred=${off} onClick=${() => open(ReplayRange, { listener: one, again })}>${W.listeners.replayRange}</${Act}>
        <${Act} icon=${active ? "pause" : "play"} barred=${off} onClick=${() => call(active ? "pause" : "resume", undefined, active ? W.listeners.paused : W.listeners.resumed)}>${active ? W.verbs.pause : W.verbs.resume}</${Act}>
        <${Act} barred=${barred("send", one.queue, one.queue_id)} onClick=${() => attempt(() => post(Q(one.queue, "messages"), { json: { test: true, from: "courier console" } }), W.listeners.tested).then(again)}>${W.listeners.test}</${Act}>
        <${Act} barred=${off} onClick=${rotate}>${W.listeners.rotate}</${Act}><${Act} kind="plain" barred=${off} onClick=${drop}>${W.listeners.deleteIt}</${Act}>`} />
    ${one.reason && html`<div class="failure">${W.listeners.reason} ${one.reason}</div>`}
    <div class="card stats">
      <${Stat} name=${W.listeners.success} value=${success(one.health)} more=${W.listeners.outcomes(count(one.health.success_count), count(one.health.failure_count))} />
      <${Stat} name=${W.listeners.waiting} value=${count(one.counters.waiting_count)} /><${Stat} name=${W.listeners.delivered} value=${count(one.counters.delivered_count)} /><${Stat} name=${W.listeners.dead} dot="dead" value=${count(one.counters.dead_letter_count)} />
      <${Stat} name=${W.listeners.breaker} value=${W.listeners.breakers[one.health.breaker]} />
      <${Stat} name=${W.listeners.lastSuccess} value=${html`<${Time} at=${one.health.last_success_at} />`} /></div>
    ${log?.deliveries.length > 2 && html`<section class="card"><header><h2>${W.listeners.curve}</h2></header><div class="pad"><${Curve} deliveries=${log.deliveries} /></div></section>`}
    <section class="card"><header><h2>${W.listeners.attempts}</h2></header><${Attempts} log=${log} queue=${one.queue} off=${off} replay=${(message) => call("replay", { message_ids: [message] }, W.listeners.replayed)} /></section>`;
}

/** @param {{deliveries: any[]}} props */
function Curve({ deliveries }) {
  const list = useMemo(() => [...deliveries].reverse(), [deliveries]);
  const series = useMemo(() => [
    { label: W.listeners.latency, values: list.map((one) => (one.verdict === "delivered" ? one.latency_ms : null)), mark: "mark-acked" },
    { label: W.listeners.failed, values: list.map((one) => (one.verdict === "delivered" ? null : (one.latency_ms ?? 0))), mark: "mark-dead" },
  ], [list]);
  return html`<${Chart} label=${W.listeners.curve} times=${list.map((one) => one.at)} series=${series} height=${160} />`;
}

/** @param {{log: any, queue: string, off: string, replay: (id: string) => void}} props */
function Attempts({ log, queue, off, replay }) {
  if (!log) return html`<${Loading} />`;
  if (!log.deliveries.length) return html`<${Empty} title=${W.listeners.noAttempts} />`;
  return html`<div class="scroll whole" tabindex="0" role="region" aria-label=${W.listeners.attempts}><table class="plain"><thead><tr><th>${W.time}</th><th>${W.listeners.verdict}</th><th class="num">${W.listeners.status}</th><th class="num">${W.listeners.latency}</th><th>${W.timeline.title}</th><th class="num">${W.column.attempts}</th><th>${W.listeners.answer}</th><th><span class="out">${W.credentials.actions}</span></th></tr></thead>
    <tbody>${log.deliveries.map((one) => html`<tr key=${`${one.at}-${one.seq}-${one.attempt}`}>
      <td><${Time} at=${one.at} /></td><td><span class=${`badge ${one.verdict === "delivered" ? "good" : one.verdict === "retry" ? "warning" : "critical"}`}>${W.listeners.verdicts[one.verdict] ?? one.verdict}</span></td>
      <td class="num">${one.status ?? W.none}</td><td class="num">${duration(one.latency_ms)}</td><td><a class="mono" href=${to(["messages", one.message_id], { queue })}>${one.message_id.slice(0, 16)}</a></td><td class="num">${one.attempt}</td>
      <td class="mono">${one.error ?? one.excerpt ?? ""}${one.delay_ms ? html` <span class="soft">${W.waits(duration(one.delay_ms))}</span>` : ""}</td>
      <td><${Act} kind="small" barred=${off} label=${`${W.verbs.replay} ${one.message_id}`} onClick=${() => replay(one.message_id)}>${W.verbs.replay}</${Act}></td></tr>`)}</tbody></table></div>`;
}

/** @param {{listener: any, again: () => void}} props */
function ReplayRange({ listener, again }) {
  const [since, setSince] = useState("");
  const [until, setUntil] = useState("");
  const at = (text) => (text ? new Date(text).getTime() : undefined);
  const act = async () => {
    let count = 0;
    for (let from = at(since), last; from && from !== last; ) {
      const part = await post(Q(listener.queue, "listeners", listener.id, "replay"), { since: (last = from), until: at(until) });
      count += part.count;
      from = part.next_since;
    }
    tell(W.listeners.replayed({ count }));
    again();
  };
  return html`<${FormDialog} title=${W.listeners.replayRange} verb=${W.verbs.replay} act=${act}><div class="fields">
    <${Field} id="replay-since" label=${W.listeners.since}><input id="replay-since" type="datetime-local" step="1" required value=${since} onInput=${(e) => setSince(e.target.value)} /></${Field}>
    <${Field} id="replay-until" label=${W.listeners.until}><input id="replay-until" type="datetime-local" step="1" value=${until} onInput=${(e) => setUntil(e.target.value)} /></${Field}></div></${FormDialog}>`;
}
