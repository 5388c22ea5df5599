// Nodes, storage, and the settings in force.
import { html } from "../view.js";
import { V } from "../api.js";
import { useAnswer } from "../load.js";
import { bytes, count, rate } from "../format.js";
import { Empty, Failure, Head, isRoot, Loading, Stat, Time } from "../widgets/parts.js";
import { W } from "../words.js";

export function Page() {
  const { data, error } = useAnswer(isRoot() ? V("server") : null, {}, 2000);
  const title = html`<${Head} title=${W.server.title} text=${data && html`${W.version(data.version)} · ${W.server.started} <${Time} at=${data.started_at} />`} />`;
  if (!isRoot()) return html`${title}<${Failure} error=${W.server.rootOnly} />`;
  if (!data) return html`${title}${error ? html`<${Failure} error=${error} />` : html`<${Loading} />`}`;
  const { store, disk, archive, lake } = data;
  return html`${title}
    ${store.unavailable_reason && html`<${Failure} error=${store.unavailable_reason} />`}
    <div class="card stats">
      <${Stat} name=${W.server.store} value=${store.kind} /><${Stat} name=${W.server.commits} value=${rate(store.commits_per_second)} more=${`${W.server.batch}: ${rate(store.batch_mean)}`} /><${Stat} name=${W.server.events} value=${rate(store.events_per_second)} />
      <${Stat} name=${W.server.sync} value=${store.sync_ms ? `${store.sync_ms.p50 ?? W.none} / ${store.sync_ms.p99 ?? W.none} ms` : W.none} /><${Stat} name=${W.server.streams} value=${count(data.stream_count)} /></div>
    <div class="columns">
      <section class="card"><header><h2>${W.server.disk}</h2></header><div class="pad"><dl class="kv"><dt>${W.server.free}</dt><dd>${bytes(disk?.free_bytes)}</dd><dt>${W.server.data}</dt><dd>${bytes(disk?.data_bytes)}</dd><dt>${W.server.journal}</dt><dd>${bytes(disk?.journal_bytes)}</dd></dl></div></section>
      <section class="card"><header><h2>${W.server.archive}</h2></header>${archive?.segment_count ? html`<div class="pad"><dl class="kv"><dt>${W.server.sealed}</dt><dd>${count(archive.sealed_until)}</dd><dt>${W.server.segments}</dt><dd>${count(archive.segment_count)}</dd><dt>${W.column.bytes}</dt><dd>${bytes(archive.byte_count)}</dd></dl></div>` : html`<${Empty} title=${W.server.noArchive} />`}</section>
      <section class="card"><header><h2>${W.server.lake}</h2></header>${lake ? html`<div class="pad"><dl class="kv"><dt>${W.server.until}</dt><dd><${Time} at=${lake.until} kind="exact" /></dd></dl></div>` : html`<${Empty} title=${W.server.noLake} />`}</section>
    </div>
    <${Table} title=${W.server.nodes} head=${[W.server.node, W.server.duties, W.server.connections, W.server.inHand]} rows=${data.nodes.map((one) => [html`<span class="mono">${one.id}</span> ${one.is_this && html`<span class="badge accent">${W.server.thisNode}</span>`}`, (one.duties ?? []).join(", ") || W.none, count(one.connection_count), count(one.in_hand_count)])} />
    <${Table} title=${W.server.cursors} none=${W.server.noCursors} head=${[W.column.name, W.server.behind, W.time]} rows=${data.cursors.map((one) => [one.name, count(one.behind_count), html`<${Time} at=${one.changed_at} />`])} />
    <${Table} title=${W.server.settings} head=${[W.server.key, W.server.value, W.server.source]} rows=${data.settings.map((one) => [html`<span class="mono">${one.key}</span>`, html`<span class="mono">${one.value === null ? W.none : typeof one.value === "object" ? JSON.stringify(one.value) : String(one.value)}</span>`, html`<span class=${`badge ${one.source && one.source !== "default" ? "accent" : ""}`}>${one.source ?? W.none}</span>`])} />`;
}

/** @param {{title: string, head: string[], rows: any[][], none?: string}} props */
const Table = ({ title, head, rows, none = "" }) => html`<section class="card"><header><h2>${title}</h2></header>${rows.length === 0 ? html`<${Empty} title=${none} />` : html`<div class="scroll whole" tabindex="0" role="region" aria-label=${title}><table class="plain">
  <thead><tr>${head.map((one) => html`<th>${one}</th>`)}</tr></thead><tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div>`}</section>`;
