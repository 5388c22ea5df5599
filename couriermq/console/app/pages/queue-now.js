// What happens in a queue now.
import { html, useEffect, useMemo, useState } from "../view.js";
import { ask, get, Q } from "../api.js";
import { follow } from "../live.js";
import { useAnswer } from "../load.js";
import { chosen, choose, tenant, to } from "../router.js";
import { barred } from "../store.js";
import { bytes, count, rate, short, SECOND } from "../format.js";
import { Act, Empty, Failure, Findings, Loading, Stat, Time } from "../widgets/parts.js";
import { Chart } from "../widgets/chart.js";
import { open, Confirm } from "../widgets/dialog.js";
import { tell } from "../widgets/toast.js";
import { W } from "../words.js";

const KEPT = 900;
const MEASURES = ["sent", "received", "acked", "released", "expired", "dead", "backlog"];

/** The queue's row and its last quarter of an hour by seconds, kept fresh. @param {string} name */
export function useQueueRow(name) {
  const [state, set] = useState(/** @type {{row: any, series: any, error: any}} */ ({ row: null, series: null, error: null }));
  const off = barred("stats", name);
  useEffect(() => {
    if (off) return undefined;
    let ended = false;
    get(Q(name, "rates"), { seconds: KEPT }).then((series) => !ended && set((old) => ({ ...old, series })), (error) => !ended && set((old) => ({ ...old, error })));
    const stop = follow({ topics: "overview,rates", queue: [name], limit: 1 }, {
      snapshot: (data) => set((old) => ({ ...old, row: data.queues[0] ?? old.row, error: null })),
      rates: (data) => set((old) => ({ ...old, row: data.queues?.[0] ? { ...old.row, ...data.queues[0] } : old.row, series: extended(old.series, data.series?.[name]) })),
    });
    return () => ((ended = true), stop());
  }, [name, tenant.value, off]);
  return { ...state, off };
}

/** The series with one more second; seconds in which nothing came are zero. @param {any} series @param {any} second */
function extended(series, second) {
  if (!series || !second) return series;
  const at = Math.round((second.at - series.from) / SECOND);
  const length = series.sent.length;
  if (at < 0 || at < length - 2) return series;
  /** @type {any} */
  const next = { ...series };
  const gap = Math.max(0, Math.min(KEPT, at - length + 1));
  for (const name of MEASURES) {
    const last = series[name].at(-1) ?? 0;
    next[name] = [...series[name], ...Array(gap).fill(name === "backlog" ? last : 0)];
    next[name][at] = second[name] ?? 0;
    next[name] = next[name].slice(-KEPT);
  }
  next.from = series.from + Math.max(0, length + gap - KEPT) * SECOND;
  return next;
}

/** @param {{name: string, queue: any, live: any}} props */
export function Tab({ name, queue, live }) {
  if (live.off) return html`<${Failure} error=${live.off} />`;
  const row = live.row;
  if (!row) return live.error ? html`<${Failure} error=${live.error} />` : html`<${Loading} />`;
  return html`
    <section class="card" aria-label=${W.now.lifecycle}><${Lifecycle} row=${row} queue=${queue} /></section>
    <div class="columns main-aside">
      <div class="stack">
        <section class="card"><header><h2>${W.now.chart}</h2><${Range} /></header><div class="pad"><${Rates} name=${name} series=${live.series} /></div></section>
        <${Diagnosis} name=${name} />
      </div>
      <div class="stack">
        <section class="card stats">
          <${Stat} name=${W.column.oldest} value=${html`<${Time} at=${row.oldest_at} kind="age" />`} />
          <${Stat} name=${W.column.bytes} value=${bytes(row.byte_count)} />
        </section>
        <${Waiting} name=${name} />
        ${queue && html`<section class="card"><header><h2>${W.now.settings}</h2><a class="btn small plain" href=${to(["queues", name, "settings"])}>${W.change}</a></header><div class="pad"><${Facts} queue=${queue} /></div></section>`}
      </div>
    </div>`;
}

/** Delayed, ready, leased, acked or dead, with what goes from one to the next each second. @param {{row: any, queue: any}} props */
function Lifecycle({ row, queue }) {
  const per = row.per_second;
  const total = row.ready_count + row.delayed_count + row.leased_count;
  const arrow = (label, value) => html`<span class="arrow"><span aria-hidden="true">→</span><span>${rate(value)}/s</span><span class="out">${label}</span></span>`;
  const stage = (state, value, more) => html`<div class=${`stage ${state}`}><span class="hint">${W.states[state]}</span><b>${value}</b><span class="hint">${more}</span></div>`;
  return html`<div class="flowbar">
    ${arrow(W.kinds.sent, per.sent)}
    ${stage("delayed", count(row.delayed_count), W.now.delayed)}
    ${stage("ready", count(row.ready_count), W.now.ready)}
    ${arrow(W.kinds.received, per.received)}
    ${stage("leased", count(row.leased_count), queue?.settings.max_leased ? W.now.leasedOf(count(queue.settings.max_leased)) : W.now.leased)}
    ${arrow(W.kinds.acked, per.acked)}
    ${stage("acked", `${rate(per.acked)}/s`, W.now.back(rate(per.released + per.expired)))}
    ${arrow(W.kinds.dead_lettered, per.dead)}
    ${stage("dead", `${rate(per.dead)}/s`, queue?.settings.dead_letter_queue ? html`<a href=${to(["queues", queue.settings.dead_letter_queue, "dead"])}><bdi>${queue.settings.dead_letter_queue}</bdi></a>` : W.now.discarded)}
  </div>
  ${total > 0 && html`<div class="pad" style=${{ paddingTop: 0 }}><div class="share" role="img" aria-label=${W.now.share(count(row.delayed_count), count(row.ready_count), count(row.leased_count))}>
    ${["delayed", "ready", "leased"].map((state) => row[`${state}_count`] > 0 && html`<i class=${state} style=${{ flex: row[`${state}_count`] }}></i>`)}</div></div>`}`;
}

const RANGES = { live: { seconds: KEPT }, "1h": { minutes: 60 }, "24h": { minutes: 1440 } };

const Range = () => html`<div class="chips" role="group" aria-label=${W.now.range}>${Object.keys(RANGES).map((one) => html`<button type="button" class="chip" aria-pressed=${chosen("range", "live") === one} onClick=${() => choose({ range: one === "live" ? "" : one })}>${W.now.ranges[one]}</button>`)}</div>`;

/** @param {{name: string, series: any}} props */
function Rates({ name, series }) {
  const range = /** @type {keyof typeof RANGES} */ (chosen("range", "live"));
  const { data } = useAnswer(range === "live" ? null : Q(name, "rates"), RANGES[range] ?? {}, 15 * SECOND);
  const shown = range === "live" ? series : data;
  const lines = useMemo(() => (shown ? seriesOf(shown) : null), [shown]);
  if (!shown || !lines) return html`<${Loading} />`;
  const times = shown.sent.map((_, i) => shown.from + i * shown.step_ms);
  return html`<${Chart} key=${range} label=${W.now.chartLabel(name)} times=${times} series=${lines} />`;
}

/** @param {any} shown @returns {import("../widgets/chart.js").Series[]} */
function seriesOf(shown) {
  const seconds = shown.step_ms / SECOND;
  const per = (values) => values.map((value) => value / seconds);
  return [
    { label: W.backlog, values: shown.backlog, mark: "mark-rest", area: true, axis: "b" },
    { label: W.perSecond.sent, values: per(shown.sent), mark: "mark-ready" },
    { label: W.perSecond.acked, values: per(shown.acked), mark: "mark-acked" },
    { label: W.perSecond.dead, values: per(shown.dead), mark: "mark-dead" },
  ];
}

/** @param {{name: string}} props */
export function Diagnosis({ name }) {
  const { data, error, reload } = useAnswer(Q(name, "diagnosis"), {}, 5 * SECOND);
  const fix = (one) => one.fix && html`<${Act} kind="small" barred=${barred("manage", name)} onClick=${() => open(Confirm, { title: one.fix.title, verb: W.diagnosis.apply,
    text: html`${one.sentence}<pre class="code">${`${one.fix.method} ${one.fix.path}${one.fix.body ? `\n${JSON.stringify(one.fix.body, null, 2)}` : ""}`}</pre>`,
    act: async () => (await ask(one.fix.method, one.fix.path.replace(/^\//, ""), { body: one.fix.body ?? undefined }), tell(W.diagnosis.done), reload()) })}>${one.fix.title}</${Act}>`;
  return html`<section class="card"><header><h2>${W.diagnosis.title}</h2>${data && html`<span class="hint"><${Time} at=${data.at} /></span>`}</header>
    ${error && html`<div class="pad"><${Failure} error=${error} /></div>`}
    ${!data && !error && html`<${Loading} />`}
    ${data && (data.findings.length ? html`<${Findings} findings=${data.findings} actions=${fix} />` : html`<${Empty} title=${W.diagnosis.calm} text=${W.diagnosis.calmText} />`)}
  </section>`;
}

/** @param {{name: string}} props */
function Waiting({ name }) {
  const { data } = useAnswer(Q(name, "receivers"), {}, 3 * SECOND);
  return html`<section class="card"><header><h2>${W.queueTabs.receivers}</h2><a class="btn small plain" href=${to(["queues", name, "receivers"])}>${W.all}</a></header>
    <ul class="list"><li><span class="grow">${W.receivers.waiting}</span><span class="num">${count(data?.waiting_count)}</span></li>
      ${(data?.principals ?? []).slice(0, 4).map((one) => html`<li key=${one.id}><span class="grow clip">${one.name ?? one.id}</span><span class="soft num">${rate(one.received_per_second)}/s</span><span class="num">${W.receivers.holds(short(one.leased_count))}</span></li>`)}</ul>
  </section>`;
}

/** @param {{queue: any}} props */
function Facts({ queue }) {
  const s = queue.settings;
  return html`<dl class="kv">
    <dt>${W.settings.lease_ms}</dt><dd>${W.settingValue("lease_ms", s.lease_ms)}</dd>
    <dt>${W.settings.max_attempts}</dt><dd>${W.settingValue("max_attempts", s.max_attempts)}</dd>
    <dt>${W.settings.retention_ms}</dt><dd>${W.settingValue("retention_ms", s.retention_ms)}</dd>
    <dt>${W.settings.dead_letter_queue}</dt><dd>${s.dead_letter_queue ? html`<a href=${to(["queues", s.dead_letter_queue])}><bdi>${s.dead_letter_queue}</bdi></a>` : W.none}</dd>
    <dt>${W.created}</dt><dd><${Time} at=${queue.created_at} kind="exact" /></dd>
  </dl>`;
}
