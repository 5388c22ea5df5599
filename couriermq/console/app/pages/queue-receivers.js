// Who consumes, and what they hold now.
import { html } from "../view.js";
import { Q } from "../api.js";
import { useAnswer } from "../load.js";
import { to } from "../router.js";
import { barred } from "../store.js";
import { count, rate } from "../format.js";
import { Empty, Failure, Loading, Time } from "../widgets/parts.js";
import { Table } from "../widgets/table.js";
import { W } from "../words.js";

/** @param {{name: string, queue: any}} props */
export function Tab({ name, queue }) {
  const off = barred("stats", name, queue?.id);
  const { data, error } = useAnswer(off ? null : Q(name, "receivers"), {}, 1500);
  if (off) return html`<${Failure} error=${off} />`;
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<${Loading} />`;
  return html`
    <section class="card"><header><h2>${W.receivers.title}</h2><span class="soft">${W.receivers.waiting}: ${count(data.waiting_count)}</span></header>
      ${data.principals.length === 0 ? html`<${Empty} title=${W.receivers.none} text=${W.receivers.noneText} />` : html`<${Table} whole=${true} label=${W.receivers.title} rows=${data.principals} keyOf=${(one) => one.id} columns=${PRINCIPALS} />`}
    </section>
    <section class="card"><header><div><h2>${W.receivers.leases}</h2><p class="hint">${W.receivers.leasesText}</p></div></header>
      ${data.leases.length === 0 ? html`<${Empty} title=${W.receivers.noLeases} />` : html`<${Table} whole=${true} label=${W.receivers.leases} rows=${data.leases} keyOf=${(one) => String(one.seq)} columns=${leases(name)} />
        <div class="table-foot">${data.leased_count > data.leases.length ? W.receivers.more(count(data.leased_count)) : ""} ${W.receivers.noEnd}</div>`}
    </section>`;
}

/** @type {import("../widgets/table.js").Column[]} */
const PRINCIPALS = [
  { key: "name", label: W.receivers.principal, width: "minmax(150px, 2fr)", cell: (one) => html`<bdi>${one.name ?? one.id}</bdi>` },
  { key: "received", label: W.receivers.received, width: "100px", num: true, cell: (one) => rate(one.received_per_second) },
  { key: "acked", label: W.receivers.acked, width: "90px", num: true, cell: (one) => rate(one.acked_per_second) },
  { key: "released", label: W.receivers.released, width: "100px", num: true, cell: (one) => rate(one.released_per_second) },
  { key: "expired", label: W.receivers.expired, width: "100px", num: true, cell: (one) => rate(one.expired_per_second) },
  { key: "leased", label: W.receivers.leased, width: "80px", num: true, cell: (one) => count(one.leased_count) },
  { key: "oldest", label: W.receivers.oldest, width: "110px", num: true, cell: (one) => html`<${Time} at=${one.oldest_lease_at} kind="age" />` },
  { key: "last", label: W.receivers.last, width: "120px", num: true, cell: (one) => html`<${Time} at=${one.last_received_at} />` },
];

/** @param {string} name @returns {import("../widgets/table.js").Column[]} */
const leases = (name) => [
  { key: "id", label: W.timeline.title, width: "minmax(150px, 2fr)", cell: (one) => html`<a class="mono" href=${to(["messages", one.message_id], { queue: name, seq: String(one.seq) })}>${one.message_id}</a>` },
  { key: "holder", label: W.receivers.holder, width: "minmax(120px, 1fr)", cell: (one) => html`<bdi>${one.principal_name ?? one.principal ?? W.none}</bdi>` },
  { key: "since", label: W.receivers.since, width: "130px", cell: (one) => html`<${Time} at=${one.since} />` },
  { key: "ends", label: W.receivers.ends, width: "130px", cell: (one) => html`<${Time} at=${one.expires_at} />` },
  { key: "attempt", label: W.column.attempts, width: "80px", num: true, cell: (one) => count(one.attempt) },
];
