// Who gets what: exchanges, their bindings, and a tester for rules.
import { html, useState } from "../view.js";
import { post, put, remove, T } from "../api.js";
import { parse } from "../exact.js";
import { useAnswer } from "../load.js";
import { go, parts, tenant, to } from "../router.js";
import { barred } from "../store.js";
import { Act, Empty, Failure, Head, Loading, Time } from "../widgets/parts.js";
import { Confirm, FormDialog, open } from "../widgets/dialog.js";
import { attempt, tell } from "../widgets/toast.js";
import { attributesOf, Field, QueueInput, Send } from "./queue-dialogs.js";
import { W } from "../words.js";

/** A rule as a sentence. @param {any} rule */
export const ruleText = (rule) => `${rule.attribute} ${rule.matcher.replace("_", " ")} ${JSON.stringify(rule.value)}`;

export function Page() {
  const name = parts.value[1];
  return name === undefined ? html`<${List} />` : html`<${Exchange} key=${`${tenant.value}/${name}`} name=${name} />`;
}

function List() {
  const { data, error } = useAnswer(T("exchanges"), { limit: 1000 }, 5000);
  return html`<${Head} title=${W.exchanges.title} text=${W.exchanges.text} actions=${html`<${Act} kind="primary" icon="plus" barred=${barred("manage")} onClick=${() => open(Create)}>${W.exchanges.create}</${Act}>`} />
    ${error && html`<${Failure} error=${error} />`}
    <div class="card">${!data ? !error && html`<${Loading} />` : data.exchanges.length === 0 ? html`<${Empty} title=${W.exchanges.none} />` : html`<ul class="list">${data.exchanges.map((one) => html`<li key=${one.id}><a class="grow" href=${to(["exchanges", one.name])}><bdi>${one.name}</bdi></a><span class="hint">${W.created} <${Time} at=${one.created_at} /></span></li>`)}</ul>`}</div>`;
}

function Create() {
  const [name, setName] = useState("");
  return html`<${FormDialog} title=${W.exchanges.create} verb=${W.create.verb} act=${async () => (await post(T("exchanges"), { name }), go(to(["exchanges", name])))}>
    <${Field} id="exchange-name" label=${W.column.name}><input id="exchange-name" required value=${name} onInput=${(e) => setName(e.target.value)} /></${Field}></${FormDialog}>`;
}

/** @param {{name: string}} props */
function Exchange({ name }) {
  const { data, error, reload } = useAnswer(T("exchanges", name, "bindings"), {}, 5000);
  const off = barred("manage", name);
  const unbind = (one) => attempt(() => remove(T("exchanges", name, "bindings", one.queue)), W.exchanges.removed).then(reload);
  const drop = () => open(Confirm, { title: W.exchanges.deleteTitle(name), text: W.exchanges.deleteText, verb: W.exchanges.deleteIt, type: name, act: async () => (await remove(T("exchanges", name)), go(to(["exchanges"]))) });
  return html`<${Head} title=${html`<a class="crumb" href=${to(["exchanges"])}>${W.exchanges.title}</a> <span class="crumb" aria-hidden="true">/</span> <bdi>${name}</bdi>`}
      actions=${html`<${Act} kind="primary" icon="send" barred=${barred("send", name)} onClick=${() => open(Send, { queue: "", exchange: name })}>${W.exchanges.publish}</${Act}>
        <${Act} icon="plus" barred=${off} onClick=${() => open(Bind, { exchange: name, reload })}>${W.exchanges.bind}</${Act}><${Act} kind="plain" barred=${off} onClick=${drop}>${W.exchanges.deleteIt}</${Act}>`} />
    ${error && html`<${Failure} error=${error} />`}
    <div class="columns"><section class="card"><header><h2>${W.exchanges.bindings}</h2></header>
      ${!data ? !error && html`<${Loading} />` : data.bindings.length === 0 ? html`<${Empty} title=${W.exchanges.noBindings} />` : html`<ul class="list">${data.bindings.map((one) => html`<li key=${one.queue_id}><div class="grow tight"><a href=${to(["queues", one.queue])}><bdi>${one.queue}</bdi></a>
        ${one.rules.length ? one.rules.map((rule) => html`<span class="hint mono">${ruleText(rule)}</span>`) : html`<span class="hint">${W.exchanges.everything}</span>`}</div>
        <${Act} kind="small" barred=${off} onClick=${() => open(Bind, { exchange: name, binding: one, reload })}>${W.change}</${Act}><${Act} kind="small" barred=${off} onClick=${() => unbind(one)}>${W.exchanges.unbind}</${Act}></li>`)}</ul>`}
    </section><${Tester} name=${name} /></div>`;
}

/** @param {{exchange: string, binding?: any, reload: () => void}} props */
function Bind({ exchange, binding, reload }) {
  const [queue, setQueue] = useState(binding?.queue ?? "");
  const [rules, setRules] = useState(binding?.rules.length ? JSON.stringify(binding.rules, null, 2) : "");
  const act = async () => (await put(T("exchanges", exchange, "bindings", queue), { rules: rules.trim() ? parse(rules) : [] }), tell(W.exchanges.done), reload());
  return html`<${FormDialog} title=${W.exchanges.bind} verb=${W.save} act=${act}>
    <${Field} id="bind-queue" label=${W.exchanges.queue}><${QueueInput} id="bind-queue" required=${true} value=${queue} onInput=${setQueue} /></${Field}>
    <${Field} id="bind-rules" label=${W.exchanges.rules} hint=${W.exchanges.rulesHint}><textarea id="bind-rules" rows="6" spellcheck=${false} value=${rules} onInput=${(e) => setRules(e.target.value)}></textarea></${Field}></${FormDialog}>`;
}

/** @param {{name: string}} props */
function Tester({ name }) {
  const [attributes, setAttributes] = useState("");
  const [json, setJson] = useState("");
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const test = async (event) => {
    event.preventDefault();
    setAnswer(await attempt(async () => post(T("exchanges", name, "route"), { attributes: attributesOf(attributes), ...(json.trim() ? { json: parse(json) } : {}) })));
  };
  return html`<section class="card"><header><div><h2>${W.exchanges.tester}</h2><p class="hint">${W.exchanges.testerText}</p></div></header>
    <form class="pad stack" onSubmit=${test}>
      <${Field} id="test-attributes" label=${W.attributes} hint=${W.send.attributesHint}><textarea id="test-attributes" rows="3" spellcheck=${false} value=${attributes} onInput=${(e) => setAttributes(e.target.value)}></textarea></${Field}>
      <${Field} id="test-json" label=${W.exchanges.json}><textarea id="test-json" rows="2" spellcheck=${false} value=${json} onInput=${(e) => setJson(e.target.value)}></textarea></${Field}>
      <div><button class="btn primary">${W.exchanges.test}</button></div></form>
    <ul class="list" role="status">${(answer?.queues ?? []).map((one) => html`<li key=${one.queue_id}><span class=${`sign ${one.matches ? "good" : ""}`} aria-hidden="true">${one.matches ? "✓" : "–"}</span><bdi class="grow">${one.queue}</bdi><span class=${one.matches ? "good" : "soft"}>${one.matches ? W.exchanges.matches : W.exchanges.refuses(one.failed_rule ? ruleText(one.failed_rule) : "")}</span></li>`)}</ul>
  </section>`;
}
