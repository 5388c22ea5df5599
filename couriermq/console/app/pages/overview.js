// Is all well, and what changed?
import { html, useEffect, useState } from "../view.js";
import { T, V } from "../api.js";
import { follow } from "../live.js";
import { useAnswer } from "../load.js";
import { SERVER, tenant, to } from "../router.js";
import { barred, kept, who } from "../store.js";
import { bytes, count, rate, short } from "../format.js";
import { Act, Empty, Failure, Findings, Head, isRoot, Loading, Stat, Time } from "../widgets/parts.js";
import { Spark } from "../widgets/spark.js";
import { open } from "../widgets/dialog.js";
import { CHANGES, changeText } from "../events.js";
import { W } from "../words.js";

/** Findings that the reader has seen, kept in this browser. */
const seen = kept("seen", /** @type {Record<string, number>} */ ({}));

export function Page() {
  const [totals, setTotals] = useState(/** @type {any} */ (null));
  const [attention, setAttention] = useState(/** @type {any[] | null} */ (null));
  const may = !barred("stats", undefined) || who.value?.scopes.some((one) => one.action === "stats");
  useEffect(() => {
    if (!may) return undefined;
    setTotals(null);
    return follow({ topics: "overview,attention", limit: 1 }, {
      snapshot: (data) => setTotals(data.totals),
      rates: (data) => setTotals((old) => ({ ...old, ...data.totals })),
      attention: (data) => setAttention(data.findings),
    });
  }, [tenant.value]);
  if (!may) return html`<${Head} title=${W.overview.title} /><${Failure} error=${barred("stats")} />`;
  return html`
    <${Head} title=${W.overview.title} text=${html`<${Health} />`}
      actions=${html`<${Act} icon="plus" kind="primary" barred=${barred("manage")} onClick=${async () => open((await import("./queue-dialogs.js")).CreateQueue)}>${W.createQueue}</${Act}>`} />
    <div class="card stats"><${Totals} totals=${totals} /></div>
    <div class="columns main-aside">
      <div class="stack">
        <${Attention} findings=${attention} />
        <div class="columns"><${Top} title=${W.overview.byBacklog} sort="ready" value=${(row) => short(row.ready_count)} />
          <${Top} title=${W.overview.byAge} sort="oldest" value=${(row) => html`<${Time} at=${row.oldest_at} kind="age" />`} /></div>
      </div>
      <${Changes} />
    </div>`;
}

/** @param {{totals: any}} props */
function Totals({ totals }) {
  if (!totals) return html`<${Loading} />`;
  const per = totals.per_second;
  return html`
    <${Stat} name=${W.queues.title} value=${count(totals.queue_count)} more=${bytes(totals.byte_count)} />
    <${Stat} name=${W.states.ready} dot="ready" value=${short(totals.ready_count)} more=${W.counted.delayed(short(totals.delayed_count))} />
    <${Stat} name=${W.states.leased} dot="leased" value=${short(totals.leased_count)} more=${W.common.lease} />
    <${Stat} name=${W.perSecond.sent} value=${rate(per.sent)} more=${html`<${Spark} spark=${totals.spark} />`} />
    <${Stat} name=${W.perSecond.acked} value=${rate(per.acked)} more=${W.perSecond.releasedExpired(rate(per.released), rate(per.expired))} />
    <${Stat} name=${W.perSecond.dead} dot="dead" value=${rate(per.dead)} more=${W.common.dead} />`;
}

function Health() {
  const [state, set] = useState(/** @type {{ready: boolean, reason: string} | null} */ (null));
  const { data: server } = useAnswer(isRoot() ? V("server") : null, {}, 5000);
  useEffect(() => {
    let timer = 0;
    const look = async () => {
      try {
        const response = await fetch(`${SERVER}readyz`);
        const body = await response.json();
        set({ ready: response.ok, reason: body.reason ?? "" });
      } catch {
        set({ ready: false, reason: W.trouble.unreachable });
      }
      timer = window.setTimeout(look, 5000);
    };
    void look();
    return () => clearTimeout(timer);
  }, []);
  if (!state) return html`<span>${W.loading}</span>`;
  const parts = server ? [W.health.disk(bytes(server.disk?.free_bytes)), W.health.sync(server.store?.sync_ms?.p99), W.health.archive(server.archive), W.health.tables(server.lake)].filter(Boolean) : [];
  return html`<span class="row"><span class=${`badge ${state.ready ? "good" : "critical"}`}>${state.ready ? W.health.ready : W.health.unready}</span>
    <span>${state.ready ? parts.join(" · ") : state.reason}</span></span>`;
}

/** @param {{findings: any[] | null}} props */
function Attention({ findings }) {
  const fresh = (findings ?? []).filter((one) => !seen.value[one.code + one.queue_id]);
  const hidden = (findings?.length ?? 0) - fresh.length;
  const actions = (one) => html`
    ${one.queue && html`<a class="btn small" href=${to(["queues", one.queue])}>${W.openThing}<span class="out"> ${one.queue}</span></a>`}
    <${Act} kind="small plain" label=${W.overview.acknowledgeLabel(one.sentence)} onClick=${() => (seen.value = { ...seen.value, [one.code + one.queue_id]: Date.now() })}>${W.overview.acknowledge}</${Act}>`;
  return html`<section class="card"><header><h2>${W.overview.attention}</h2>
      ${hidden > 0 && html`<${Act} kind="small plain" onClick=${() => (seen.value = {})}>${W.overview.showSeen(hidden)}</${Act}>`}</header>
    ${findings === null ? html`<${Loading} />` : fresh.length ? html`<${Findings} findings=${fresh.slice(0, 30)} named=${true} actions=${actions} />` : html`<${Empty} title=${W.overview.calm} text=${W.overview.calmText} />`}
  </section>`;
}

/** @param {{title: string, sort: string, value: (row: any) => any}} props */
function Top({ title, sort, value }) {
  const { data, error } = useAnswer(T("overview"), { sort, order: sort === "oldest" ? "asc" : "desc", limit: 5 }, 3000);
  const rows = (data?.queues ?? []).filter((row) => (sort === "oldest" ? row.oldest_at : row.ready_count));
  return html`<section class="card"><header><h2>${title}</h2></header>
    ${error && html`<${Failure} error=${error} />`}
    ${data && !rows.length && html`<${Empty} title=${W.overview.nothingWaits} />`}
    <ul class="list">${rows.map((row) => html`<li key=${row.id}>
      <a class="grow clip" href=${to(["queues", row.name])}><bdi>${row.name}</bdi></a><${Spark} spark=${row.spark} /><span class="num">${value(row)}</span></li>`)}</ul>
  </section>`;
}

function Changes() {
  const { data, error } = useAnswer(V("journal", "events"), { tenant: isRoot() ? tenant.value : "", kind: CHANGES, order: "newest", limit: 20, bodies: false }, 5000);
  return html`<section class="card"><header><h2>${W.overview.changes}</h2></header>
    ${error && html`<div class="pad"><${Failure} error=${error} /></div>`}
    ${data && !data.events.length && html`<${Empty} title=${W.overview.noChanges} />`}
    <ul class="list">${(data?.events ?? []).map((event) => html`<li key=${String(event.offset)}>
      <span class="grow tight"><span>${changeText(event)}</span><span class="hint">${W.by(event.principal)} · <${Time} at=${event.at} /></span></span></li>`)}</ul>
  </section>`;
}
