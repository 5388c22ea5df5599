// How messages flow, in columns from senders to receivers.
import { html } from "../view.js";
import { T } from "../api.js";
import { useAnswer } from "../load.js";
import { to } from "../router.js";
import { barred, who } from "../store.js";
import { cut, rate, short } from "../format.js";
import { Empty, Failure, Head, Loading } from "../widgets/parts.js";
import { W } from "../words.js";
import { layout } from "../widgets/flow.js";

export function Page() {
  const may = who.value?.tenant === null || who.value?.scopes.some((one) => one.action === "stats");
  const { data, error } = useAnswer(may ? T("map") : null, {}, 2000);
  return html`<${Head} title=${W.map.title} text=${W.map.text} />
    ${(error || !may) && html`<${Failure} error=${error ?? barred("stats")} />`}
    ${data && (data.nodes.length === 0 ? html`<div class="card"><${Empty} title=${W.map.none} /></div>` : html`<section class="card">
      <div class="scroll whole" tabindex="0" role="region" aria-label=${W.map.title}><${Picture} data=${data} /></div>
      ${data.truncated && html`<div class="table-foot">${W.map.truncated}</div>`}</section><${Edges} data=${data} />`)}
    ${!data && !error && may && html`<${Loading} />`}`;
}

/** @param {any} node */
function hrefOf(node) {
  if (node.kind === "queue") return to(["queues", node.name]);
  if (node.kind === "principal") return to(["tail"], { principal: node.id.replace(/^(sender|receiver|principal|p)[:/]/, "") });
  return to([node.kind === "exchange" ? "exchanges" : "listeners", node.kind === "exchange" ? node.name : node.id.replace(/^listener[:/]/, "")]);
}

/** @param {{data: any}} props */
function Picture({ data }) {
  const { boxes, lines, width, height, columns } = layout(data.nodes, data.edges);
  return html`<svg class="flow" viewBox=${`0 0 ${width} ${height}`} role="group" aria-label=${W.map.picture}>
    ${columns.map((column) => html`<text class="soft" x=${column.x} y="20">${W.map[/** @type {"senders"} */ (column.name)]}</text>`)}
    ${lines.map((line) => html`<g><path class=${`${line.edge.kind} ${line.edge.stuck ? "stuck" : line.edge.per_second ? "" : "idle"}`} d=${line.d} stroke-width=${line.width}><title>${`${W.map.kinds[line.edge.kind]} ${rate(line.edge.per_second)}/s`}</title></path>
      ${line.edge.per_second > 0 && html`<text class="soft" x=${line.x} y=${line.y} text-anchor="middle">${rate(line.edge.per_second)}/s</text>`}</g>`)}
    ${boxes.map((box) => html`<a key=${box.node.id + box.x} href=${hrefOf(box.node)} class=${box.stuck ? "stuck" : ""}><rect class="box" x=${box.x} y=${box.y} width=${box.width} height=${box.height} rx="8" />
      <text x=${box.x + 12} y=${box.y + 18}>${cut(box.node.name ?? box.node.id, 20)}</text><text class="soft" x=${box.x + 12} y=${box.y + 35}>${noteOf(box.node)}</text></a>`)}
  </svg>`;
}

/** @param {any} node */
const noteOf = (node) => (node.kind === "queue" ? `${short(node.ready_count ?? 0)} ${W.states.ready.toLowerCase()}${node.flags?.includes("paused") ? ` · ${W.flags.paused.toLowerCase()}` : ""}` : node.kind === "listener" ? `${W.terms.listener.join(" / ")}${node.state && node.state !== "active" ? ` · ${node.state}` : ""}` : node.kind);

/** @param {{data: any}} props */
function Edges({ data }) {
  const names = new Map(data.nodes.map((node) => [node.id, node]));
  const link = (id) => { const node = names.get(id); return node ? html`<a href=${hrefOf(node)}><bdi>${node.name ?? node.id}</bdi></a>` : id; };
  return html`<details class="card"><summary class="pad">${W.map.asList}</summary><div class="scroll whole" tabindex="0" role="region" aria-label=${W.map.asList}><table class="plain"><thead><tr><th>${W.map.from}</th><th>${W.map.kind}</th><th>${W.map.to}</th><th class="num">${W.map.rate}</th></tr></thead>
    <tbody>${data.edges.map((edge) => html`<tr><td>${link(edge.from)}</td><td>${W.map.kinds[edge.kind]}</td><td>${link(edge.to)}</td><td class="num">${rate(edge.per_second)}/s</td></tr>`)}</tbody></table></div></details>`;
}
