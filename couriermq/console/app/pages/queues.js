// Find and compare queues; the server searches and sorts.
import { html, useEffect, useRef, useState } from "../view.js";
import { get, post, T } from "../api.js";
import { follow } from "../live.js";
import { choose, chosen, tenant, to } from "../router.js";
import { barred } from "../store.js";
import { bytes, count, rate, short } from "../format.js";
import { Act, Empty, Failure, Find, Head, Loading, Time } from "../widgets/parts.js";
import { Spark } from "../widgets/spark.js";
import { Table } from "../widgets/table.js";
import { FormDialog, open } from "../widgets/dialog.js";
import { tell, tellError } from "../widgets/toast.js";
import { CreateQueue, Progress } from "./queue-dialogs.js";
import { W } from "../words.js";

const PAGE = 200, STEP = PAGE / 2, REST_MS = 200;

/** @type {import("../widgets/table.js").Column[]} */
const COLUMNS = [
  { key: "name", label: W.column.name, width: "minmax(170px, 2fr)", sort: true, cell: (row) => html`<a href=${to(["queues", row.name])}><bdi>${row.name}</bdi></a> <${Flags} row=${row} />` },
  { key: "ready", label: W.states.ready, width: "76px", num: true, sort: true, cell: (row) => short(row.ready_count) },
  { key: "delayed", label: W.states.delayed, width: "76px", num: true, sort: true, cell: (row) => short(row.delayed_count) },
  { key: "leased", label: W.states.leased, width: "76px", num: true, sort: true, cell: (row) => short(row.leased_count) },
  { key: "oldest", label: W.column.oldest, width: "96px", num: true, sort: true, cell: (row) => html`<${Time} at=${row.oldest_at} kind="age" />` },
  { key: "sent", label: W.column.sent, width: "72px", num: true, sort: true, cell: (row) => rate(row.per_second.sent) },
  { key: "acked", label: W.column.acked, width: "76px", num: true, sort: true, cell: (row) => rate(row.per_second.acked) },
  { key: "dead", label: W.column.dead, width: "72px", num: true, sort: true, cell: (row) => rate(row.per_second.dead) },
  { key: "spark", label: W.column.hour, width: "104px", cell: (row) => html`<${Spark} spark=${row.spark} />` },
  { key: "bytes", label: W.column.bytes, width: "80px", num: true, sort: true, cell: (row) => bytes(row.byte_count) },
  { key: "dlq", label: W.column.deadTo, width: "minmax(110px, 1fr)", cell: (row) => row.dead_letter_queue ? html`<a href=${to(["queues", row.dead_letter_queue])}><bdi>${row.dead_letter_queue}</bdi></a>` : html`<span class="soft">${W.none}</span>` },
];

/** @param {{row: any}} props */
export const Flags = ({ row }) => html`${row.flags.includes("paused") && html`<span class="badge warning">${W.flags.paused}</span> `}${row.kind === "fifo" && html`<span class="badge">FIFO</span> `}${row.flags.includes("dead_letters") && html`<span class="badge dead">${W.flags.dead_letters}</span> `}${row.flags.includes("listeners") && html`<span class="badge accent">${W.flags.listeners}</span>`}`;

/**
 * Rows that the server has found, read page by page; those around the ones in sight change as the queues do.
 * @param {{find: string, sort: string, order: string}} asked
 */
function useRows({ find, sort, order }) {
  const [state, set] = useState(/** @type {any} */ ({ rows: null, matched: 0, totals: null, error: null, next: null }));
  const busy = useRef(false);
  const key = [tenant.value, find, sort, order].join("\n");
  const [seen, setSeen] = useState({ key, start: 0 });
  const start = seen.key === key ? seen.start : 0;
  const timer = useRef(0);
  const show = (first) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setSeen({ key, start: Math.floor(first / STEP) * STEP }), REST_MS);
  };
  useEffect(() => () => clearTimeout(timer.current), [key]);
  useEffect(() => follow({ topics: "overview", find, sort, order, limit: PAGE, skip: start }, {
    snapshot: (data) => set((old) => {
      const known = old.key === key ? old.rows : null;
      return { rows: placed(data.queues, known ?? [], start), matched: data.matched_count, totals: data.totals, error: null, next: known?.length > start + PAGE ? old.next : data.next, key };
    }),
    refused: (error) => error.status !== 503 && set((old) => ({ ...old, error })),
    rates: (data) => set((old) => ({ ...old, rows: changed(old.rows, data.queues ?? []) })),
  }), [key, start]);
  const more = async () => {
    if (busy.current || state.next === null) return;
    busy.current = true;
    try {
      const data = await get(T("overview"), { find, sort, order, limit: PAGE, skip: state.next });
      const known = new Set(state.rows.map((row) => row.id));
      set((old) => ({ ...old, rows: [...old.rows, ...data.queues.filter((row) => !known.has(row.id))], next: data.next }));
    } catch (error) {
      set((old) => ({ ...old, error }));
    }
    busy.current = false;
  };
  return { ...state, more, show };
}

/** A page as it is now, among the rows that were read before. @param {any[]} page @param {any[]} old @param {number} start */
function placed(page, old, start) {
  const known = new Set(page.map((row) => row.id));
  const others = (rows) => rows.filter((row) => !known.has(row.id));
  return [...others(old.slice(0, start)), ...page, ...others(old.slice(start + PAGE))];
}

/** @param {any[] | null} rows @param {any[]} news */
function changed(rows, news) {
  if (!rows || !news.length) return rows;
  const byId = new Map(news.map((row) => [row.id, row]));
  return rows.map((row) => (byId.has(row.id) ? { ...row, ...byId.get(row.id) } : row));
}

export function Page() {
  const find = chosen("find"), sort = chosen("sort", "name"), order = chosen("order", "asc");
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const { rows, matched, error, more, show } = useRows({ find, sort, order });
  const onSort = (key) => choose({ sort: key, order: key === sort ? (order === "asc" ? "desc" : "asc") : key === "name" || key === "oldest" ? "asc" : "desc" });
  const onSelect = (name) => {
    const next = new Set(selected);
    if (!next.delete(name)) next.add(name);
    setSelected(next);
  };
  return html`
    <${Head} title=${W.queues.title} text=${W.queues.text}
      actions=${html`<${Act} icon="plus" kind="primary" barred=${barred("manage")} onClick=${() => open(CreateQueue)}>${W.createQueue}</${Act}>`} />
    ${error && html`<${Failure} error=${error} />`}
    <div class="row wide"><${Find} value=${find} label=${W.queues.find} onInput=${(text) => choose({ find: text })} />
      <${Bulk} selected=${selected} find=${find} matched=${matched} clear=${() => setSelected(new Set())} /></div>
    <div class="card">
      ${rows === null ? !error && html`<${Loading} />` : rows.length === 0 ? html`<${Empty} title=${find ? W.queues.nothing(find) : W.queues.none} text=${find ? "" : W.queues.noneText} />` : html`
        <${Table} label=${W.queues.title} columns=${COLUMNS} rows=${rows} total=${matched} keyOf=${(row) => row.name} sort=${sort} order=${order} onSort=${onSort}
          href=${(row) => to(["queues", row.name])} selected=${selected} onSelect=${onSelect} onEnd=${more} onShow=${show} />
        <div class="table-foot"><span>${W.queues.count(count(matched))}</span><${Legend} /></div>`}
    </div>`;
}

const Legend = () => html`<span class="legend"><span><span class="dot ready"></span>${W.kinds.sent}</span><span><span class="dot acked"></span>${W.kinds.acked}</span><span><span class="dot"></span>${W.backlog}</span></span>`;

/** What can be done to the chosen queues, or to all that match. @param {{selected: Set<string>, find: string, matched: number, clear: () => void}} props */
function Bulk({ selected, find, matched, clear }) {
  const some = selected.size > 0;
  if (!some && !find) return null;
  const number = some ? selected.size : matched;
  const act = (change) => open(ChangeAll, { change, number, which: some ? { queues: [...selected] } : { find }, done: clear });
  const off = barred("manage");
  return html`<div class="row" role="group" aria-label=${W.bulk.label}><span class="soft">${some ? W.bulk.selected(number) : W.bulk.all(count(number))}</span>
    <${Act} barred=${off} kind="small" onClick=${() => act("pause")}>${W.verbs.pause}</${Act}><${Act} barred=${off} kind="small" onClick=${() => act("resume")}>${W.verbs.resume}</${Act}>
    <${Act} barred=${off} kind="small" onClick=${() => act("purge")}>${W.verbs.purge}</${Act}>
    ${some && html`<${Act} kind="small plain" onClick=${clear}>${W.bulk.clear}</${Act}>`}</div>`;
}

/**
 * The server changes them in turns, each a call.
 * @param {string} change @param {Record<string, any>} which @param {(done: number, total: number) => void} told
 */
async function changeAll(change, which, told) {
  let done = 0, after = null;
  do {
    const turn = await post(T("queue-changes"), { change, ...which, after });
    for (const one of turn.failures) tellError(`${one.queue}: ${one.detail}`);
    done += turn.changed_count;
    after = turn.next;
    told(done, turn.matched_count);
  } while (after !== null);
  tell(W.bulk.done(W.verbs[change], count(done)));
}

/** Ask first, then do it to all. @param {{change: string, number: number, which: Record<string, any>, done: () => void}} props */
function ChangeAll({ change, number, which, done }) {
  const [state, set] = useState(/** @type {any} */ (null));
  const act = async () => {
    await changeAll(change, which, (n, total) => set({ n, total }));
    done();
  };
  return html`<${FormDialog} title=${W.bulk.title(W.verbs[change], count(number))} verb=${W.verbs[change]} danger=${true} act=${act}>
    <p>${change === "purge" ? W.bulk.purge(count(number)) : W.bulk.text(W.verbs[change], count(number))}</p>
    ${state && html`<div class="tight" role="status"><${Progress} done=${state.n} total=${state.total} /><span class="hint">${W.bulk.soFar(count(state.n), count(state.total))}</span></div>`}
  </${FormDialog}>`;
}
