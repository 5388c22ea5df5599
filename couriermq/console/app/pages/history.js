// The past by the hour: a heat map, a range to choose, and replay of what was sent in it.
import { html, useEffect, useMemo, useRef, useState } from "../view.js";
import { get, Q, T } from "../api.js";
import { choose, chosen, tenant, to } from "../router.js";
import { barred } from "../store.js";
import { count, duration, HOUR, instant, short } from "../format.js";
import { Act, Empty, Failure, Head, Loading } from "../widgets/parts.js";
import { open } from "../widgets/dialog.js";
import { Operate } from "./queue-dialogs.js";
import { W } from "../words.js";

const ROWS = 30, CELL_H = 22, LABEL = 150;
const MEASURES = ["backlog", "sent", "acked", "dead_lettered", "oldest_age_ms", "latency_p95_ms"];

/** The busiest queues with their hours. @param {number} from @param {number} to */
function useHours(from, to) {
  const [state, set] = useState(/** @type {any} */ ({ rows: null, error: null, fresh: null }));
  useEffect(() => {
    const stop = new AbortController();
    set({ rows: null, error: null, fresh: null });
    const load = async () => {
      const totals = await get(T("stats"), { from, to }, stop.signal);
      const names = Object.entries(totals.queues).sort(([, a], [, b]) => activity(b) - activity(a)).slice(0, ROWS).map(([name]) => name).sort();
      const rows = [];
      for (let i = 0; i < names.length; i += 4) rows.push(...(await Promise.all(names.slice(i, i + 4).map(async (name) => ({ name, points: (await get(Q(name, "stats"), { from, to, step: HOUR }, stop.signal)).points })))));
      set({ rows, error: null, fresh: totals.fresh });
    };
    load().catch((error) => !stop.signal.aborted && set({ rows: [], error, fresh: null }));
    return () => stop.abort();
  }, [from, to, tenant.value]);
  return state;
}

/** @param {any} totals */
const activity = (totals) => totals.sent + totals.acked + totals.arrived + totals.dead_lettered;

export function Page() {
  const hours = Number(chosen("hours", "24"));
  const measure = chosen("measure", "sent");
  const end = useMemo(() => (Math.floor(Date.now() / HOUR) + 1) * HOUR, [hours]);
  const start = end - hours * HOUR;
  const { rows, error, fresh } = useHours(start, end);
  const from = Number(chosen("from")), until = Number(chosen("to"));
  return html`<${Head} title=${W.history.title} text=${W.history.text} actions=${html`<div class="chips" role="group" aria-label=${W.history.range}>${Object.keys(W.history.ranges).map((one) => html`<button type="button" class="chip" aria-pressed=${String(hours) === one} onClick=${() => choose({ hours: one, from: "", to: "" })}>${W.history.ranges[one]}</button>`)}</div>`} />
    <div class="row wide"><div class="chips" role="group" aria-label=${W.history.measure}>${MEASURES.map((one) => html`<button type="button" class="chip" aria-pressed=${measure === one} onClick=${() => choose({ measure: one })}>${W.history.measures[one]}</button>`)}</div>
      <${Act} kind="small" barred=${rows?.length ? "" : W.history.none} onClick=${() => exportCsv(rows)}>${W.history.csv}</${Act}></div>
    ${error && html`<${Failure} error=${error} />`}
    <section class="card">${!rows ? html`<${Loading} />` : rows.length === 0 ? html`<${Empty} title=${W.history.none} />` : html`<div class="pad scroll whole" tabindex="0" role="region" aria-label=${W.history.picture}><${Heat} rows=${rows} start=${start} hours=${hours} measure=${measure} from=${from} until=${until} /></div>`}
      <div class="table-foot">${fresh && html`<span>${fresh.tables_until ? W.history.fresh(instant(fresh.tables_until)) : W.history.journalOnly} ${W.history.note}</span>`}</div></section>
    ${from > 0 && until > from && rows && html`<${Chosen} rows=${rows} from=${from} until=${until} />`}`;
}

/** @param {string} measure @param {any} value */
const shown = (measure, value) => (value === null || value === undefined ? W.none : measure.endsWith("_ms") ? duration(value) : short(value));

/** @param {{rows: any[], start: number, hours: number, measure: string, from: number, until: number}} props */
function Heat({ rows, start, hours, measure, from, until }) {
  const svg = useRef(/** @type {SVGSVGElement | null} */ (null));
  const anchor = useRef(/** @type {number | null} */ (null));
  const cell = Math.max(7, Math.floor(900 / hours));
  const width = LABEL + hours * cell + 4, height = rows.length * CELL_H + 24;
  const top = Math.max(1, ...rows.flatMap((row) => row.points.map((point) => point[measure] ?? 0)));
  const hourAt = (event) => {
    const box = /** @type {SVGSVGElement} */ (svg.current).getBoundingClientRect();
    return Math.max(0, Math.min(hours - 1, Math.floor((((event.clientX - box.left) / box.width) * width - LABEL) / cell)));
  };
  const brush = (a, b) => choose({ from: start + Math.min(a, b) * HOUR, to: start + (Math.max(a, b) + 1) * HOUR });
  const mark = "mark-" + ({ acked: "acked", dead_lettered: "dead", oldest_age_ms: "leased", latency_p95_ms: "delayed" }[measure] ?? "ready");
  return html`<svg ref=${svg} class="heat" viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${`${W.history.picture}: ${W.history.measures[measure]}`}
      onPointerDown=${(e) => { anchor.current = hourAt(e); brush(anchor.current, anchor.current); }} onPointerMove=${(e) => anchor.current !== null && brush(anchor.current, hourAt(e))} onPointerUp=${() => (anchor.current = null)} onPointerLeave=${() => (anchor.current = null)}>
    ${rows.map((row, y) => html`<g key=${row.name}><text x="0" y=${y * CELL_H + 15}>${row.name.length > 20 ? `${row.name.slice(0, 19)}…` : row.name}</text>
      ${row.points.map((point) => { const x = Math.round((point.at - start) / HOUR); const value = point[measure] ?? 0; return html`<rect class="cell" x=${LABEL + x * cell} y=${y * CELL_H} width=${cell} height=${CELL_H} rx="2" style=${value ? { fill: `var(--${mark})`, fillOpacity: 0.12 + 0.88 * Math.sqrt(value / top) } : { fill: "var(--wash)" }}><title>${`${row.name}, ${instant(point.at).slice(0, 16)}: ${shown(measure, point[measure])}`}</title></rect>`; })}</g>`)}
    ${Array.from({ length: hours }, (_, i) => i).filter((i) => i % Math.ceil(hours / 12) === 0).map((i) => html`<text class="soft" x=${LABEL + i * cell} y=${height - 6}>${hours > 24 ? instant(start + i * HOUR).slice(5, 10) : instant(start + i * HOUR).slice(11, 16)}</text>`)}
    ${from > 0 && html`<rect class="brush" x=${LABEL + ((from - start) / HOUR) * cell} y="0" width=${((until - from) / HOUR) * cell} height=${rows.length * CELL_H} rx="3" />`}
  </svg>`;
}

/** @param {{rows: any[], from: number, until: number}} props */
function Chosen({ rows, from, until }) {
  const sums = rows.map((row) => ({ name: row.name, ...sumOf(row.points.filter((point) => point.at >= from && point.at < until)) })).filter((row) => row.sent + row.acked + row.dead_lettered);
  return html`<section class="card"><header><h2>${W.history.chosen(instant(from).slice(0, 16), instant(until).slice(0, 16))}</h2><${Act} kind="small plain" onClick=${() => choose({ from: "", to: "" })}>${W.history.clear}</${Act}></header>
    ${!sums.length ? html`<${Empty} title=${W.history.none} />` : html`<div class="scroll whole" tabindex="0" role="region" aria-label=${W.history.queues}><table class="plain"><thead><tr><th>${W.column.name}</th><th class="num">${W.history.measures.sent}</th><th class="num">${W.history.measures.acked}</th><th class="num">${W.history.measures.dead_lettered}</th><th><span class="out">${W.credentials.actions}</span></th></tr></thead>
      <tbody>${sums.map((row) => html`<tr key=${row.name}><td><a href=${to(["queues", row.name])}><bdi>${row.name}</bdi></a></td><td class="num">${count(row.sent)}</td><td class="num">${count(row.acked)}</td><td class="num">${count(row.dead_lettered)}</td>
        <td><div class="row"><${Act} kind="small" barred=${barred("manage", row.name)} onClick=${() => open(Operate, { verb: "replay", queue: row.name, where: { from, to: until }, target: row.name, ask: true })}>${W.history.replay}</${Act}><a class="btn small" href=${to(["tail"], { queue: row.name, at: from, speed: 100 })}>${W.nav.tail}</a></div></td></tr>`)}</tbody></table></div>`}</section>`;
}

/** @param {any[]} points */
const sumOf = (points) => points.reduce((sum, point) => ({ sent: sum.sent + point.sent, acked: sum.acked + point.acked, dead_lettered: sum.dead_lettered + point.dead_lettered }), { sent: 0, acked: 0, dead_lettered: 0 });

/** @param {any[]} rows */
function exportCsv(rows) {
  const keys = Object.keys(rows[0].points[0] ?? {});
  const text = [["queue", ...keys].join(","), ...rows.flatMap((row) => row.points.map((point) => [JSON.stringify(row.name), ...keys.map((key) => point[key] ?? "")].join(",")))].join("\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = "courier-history.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}
