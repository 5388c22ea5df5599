// Why messages died, and the way back: one button.
import { html, useEffect } from "../view.js";
import { Q } from "../api.js";
import { useAnswer } from "../load.js";
import { to } from "../router.js";
import { barred, prefs } from "../store.js";
import { count } from "../format.js";
import { Act, Empty, Failure, Loading, Time } from "../widgets/parts.js";
import { isOpen, open } from "../widgets/dialog.js";
import { Operate } from "./queue-dialogs.js";
import { W } from "../words.js";

/** @param {{name: string, queue: any, live: any}} props */
export function Tab({ name, queue }) {
  const off = barred("browse", name, queue?.id);
  const manage = barred("manage", name, queue?.id);
  const { data, error } = useAnswer(off ? null : Q(name, "dead-letters", "summary"), {}, 4000);
  const run = (verb, where) => open(Operate, { verb, queue: name, where, ask: verb === "redrive" });
  useEffect(() => {
    const press = (event) => {
      const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(/** @type {HTMLElement} */ (event.target).tagName);
      if (event.key === "r" && prefs.keys.value && !typing && !isOpen() && !event.ctrlKey && !event.metaKey && !manage && data?.groups.length) run("redrive", {});
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  });
  if (off) return html`<${Failure} error=${off} />`;
  if (!data) return error ? html`<${Failure} error=${error} />` : html`<${Loading} />`;
  if (!data.groups.length) return html`<div class="card"><${Empty} title=${W.dead.none} text=${W.dead.noneText} /></div>`;
  return html`<section class="card">
    <header><div><h2>${W.dead.title}</h2><p class="hint">${data.complete ? W.dead.all(count(data.total_count)) : W.dead.looked(count(data.looked_count), count(data.total_count))} ${W.dead.text}</p></div>
      <${Act} kind="primary" barred=${manage} onClick=${() => run("redrive", {})}>${W.dead.redriveAll}</${Act}></header>
    <div class="scroll whole" tabindex="0" role="region" aria-label=${W.dead.title}><table class="plain">
      <thead><tr><th>${W.dead.source}</th><th>${W.dead.reason}</th><th>${W.column.contentType}</th><th class="num">${W.dead.number}</th><th>${W.dead.newest}</th><th>${W.dead.day}</th><th>${W.dead.examples}</th><th><span class="out">${W.credentials.actions}</span></th></tr></thead>
      <tbody>${data.groups.map((group) => html`<${Group} key=${group.source_queue_id + group.reason + group.content_type} name=${name} group=${group} manage=${manage} run=${run} />`)}</tbody>
    </table></div>
  </section>`;
}

/** @param {{name: string, group: any, manage: string, run: (verb: string, where: any) => void}} props */
function Group({ name, group, manage, run }) {
  const where = { source_queue: group.source_queue ?? group.source_queue_id, reason: group.reason, content_type: group.content_type };
  return html`<tr>
    <td>${group.source_queue ? html`<a href=${to(["queues", group.source_queue])}><bdi>${group.source_queue}</bdi></a>` : W.dead.deleted}</td>
    <td>${W.reasons[group.reason] ?? group.reason}</td><td class="mono">${group.content_type}</td><td class="num">${count(group.count)}</td>
    <td><${Time} at=${group.newest_at} /></td><td><${Strip} hours=${group.hours} /></td>
    <td><div class="tight">${group.examples.map((one) => html`<a class="mono" href=${to(["messages", one.id], { queue: name, seq: String(one.seq) })}>${one.id.slice(0, 12)}</a>`)}</div></td>
    <td><div class="row"><${Act} kind="small primary" barred=${manage} onClick=${() => run("redrive", where)}>${W.verbs.redrive}</${Act}>
      <a class="btn small" href=${to(["queues", name, "messages"], { reason: group.reason, source: where.source_queue })}>${W.dead.show}</a>
      <${Act} kind="small" barred=${manage} onClick=${() => run("remove", where)}>${W.verbs.discard}</${Act}></div></td>
  </tr>`;
}

/** @param {{hours: number[]}} props */
function Strip({ hours }) {
  const top = Math.max(1, ...hours);
  return html`<div class="strip" role="img" aria-label=${W.dead.hours(hours.reduce((a, b) => a + b, 0))}>${hours.map((value) => html`<i class=${value ? "" : "none"} style=${{ height: `${(value / top) * 100}%` }}></i>`)}</div>`;
}
