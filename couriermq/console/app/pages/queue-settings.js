// Settings as a form made from the API's own description, with the history of changes and a way back.
import { html, useEffect, useState } from "../view.js";
import { patch, Q, T, V } from "../api.js";
import { SERVER, go, tenant, to } from "../router.js";
import { barred } from "../store.js";
import { useAnswer } from "../load.js";
import { bytes } from "../format.js";
import { Act, Empty, Failure, isRoot, Loading, Time } from "../widgets/parts.js";
import { open } from "../widgets/dialog.js";
import { attempt, tell } from "../widgets/toast.js";
import { Curl, DeleteQueue, QueueInput } from "./queue-dialogs.js";
import { W } from "../words.js";

const UNITS = [86_400_000, 3_600_000, 60_000, 1000, 1];
/** The same settings in the words of the other APIs. @type {Record<string, [string, (value: any) => any][]>} */
const OTHERS = {
  Cloudflare: [["delivery_delay", (s) => s.delay_ms / 1000], ["message_retention_period", (s) => s.retention_ms / 1000], ["delivery_paused", (s) => s.paused], ["max_retries", (s) => (s.max_attempts === null ? null : s.max_attempts - 1)], ["visibility_timeout_ms", (s) => s.lease_ms], ["retry_delay", (s) => s.retry_delay_ms / 1000], ["dead_letter_queue", (s) => s.dead_letter_queue]],
  Anypoint: [["defaultTtl", (s) => s.retention_ms], ["defaultLockTtl", (s) => s.lease_ms], ["defaultDeliveryDelay", (s) => s.delay_ms / 1000], ["maxDeliveries", (s) => s.max_attempts], ["deadLetterQueueId", (s) => s.dead_letter_queue]],
};

/** @type {any} */
let description = null;

/** What the API's document says about settings: their sentences, ranges and defaults. */
function useSchema() {
  const [schema, set] = useState(description);
  useEffect(() => {
    if (description) return;
    fetch(`${SERVER}openapi/native.json`).then((answer) => answer.json()).then((document) => set((description = document.components.schemas)), () => {});
  }, []);
  return schema;
}

/** @param {{name: string, queue: any, reload: () => void}} props */
export function Tab({ name, queue, reload }) {
  const schemas = useSchema();
  const [draft, setDraft] = useState(/** @type {Record<string, any>} */ ({}));
  const [newName, setNewName] = useState(name);
  const [error, setError] = useState(/** @type {any} */ (null));
  const off = barred("manage", name, queue?.id);
  if (!queue || !schemas) return html`<${Loading} />`;
  const changes = Object.fromEntries(Object.entries(draft).filter(([key, value]) => value !== queue.settings[key]));
  const renamed = newName !== name;
  const dirty = Object.keys(changes).length > 0 || renamed;
  const save = async (event) => {
    event.preventDefault();
    setError(null);
    try {
      const saved = await patch(Q(name), { ...(Object.keys(changes).length ? { settings: changes } : {}), ...(renamed ? { name: newName } : {}) });
      setDraft({});
      tell(W.settingsPage.saved);
      reload();
      if (renamed) go(to(["queues", saved.name, "settings"]));
    } catch (problem) {
      setError(problem);
    }
  };
  const fields = Object.keys(schemas.SomeSettings.properties);
  return html`<div class="columns main-aside">
    <form class="card" onSubmit=${save}><header><h2>${W.settingsPage.title}</h2></header>
      <div class="pad stack">
        <div class="fields">
          <div class="field"><label for="setting-name">${W.settingsPage.rename}</label><input id="setting-name" value=${newName} disabled=${off !== ""} onInput=${(e) => setNewName(e.target.value)} /></div>
          ${fields.map((key) => html`<${Setting} key=${key} name=${key} schemas=${schemas} off=${off !== ""} value=${key in draft ? draft[key] : queue.settings[key]} set=${(value) => setDraft({ ...draft, [key]: value })} error=${error?.field?.endsWith(key) ? error : null} />`)}
        </div>
        ${error && html`<${Failure} error=${error} />`}
        <div class="row">${off ? html`<${Act} barred=${off} onClick=${() => {}}>${W.settingsPage.save}</${Act}>` : html`<button class="btn primary" disabled=${!dirty}>${dirty ? W.settingsPage.save : W.settingsPage.nothing}</button>`}
          ${dirty && html`<${Act} onClick=${() => (setDraft({}), setNewName(name))}>${W.settingsPage.reset}</${Act}>`}
          <span class="grow"></span><${Act} kind="plain" barred=${off} onClick=${() => open(DeleteQueue, { queue: name })}>${W.settingsPage.danger}</${Act}></div>
      </div></form>
    <div class="stack"><${History} queue=${queue} name=${name} off=${off} reload=${reload} /><${InOtherWords} name=${name} settings=${queue.settings} /></div>
  </div>`;
}

/** @param {any} schema @param {any} schemas */
const resolved = (schema, schemas) => (schema.$ref ? schemas[schema.$ref.split("/").at(-1)] : schema);

/** @param {{name: string, schemas: any, value: any, set: (value: any) => void, off: boolean, error: any}} props */
function Setting({ name, schemas, value, set, off, error }) {
  const given = schemas.SomeSettings.properties[name];
  const options = given.anyOf ?? [given];
  const schema = resolved(options.find((one) => one.type !== "null") ?? given, schemas);
  const nullable = options.some((one) => one.type === "null");
  const standard = schemas.QueueSettings.properties[name]?.default;
  const id = `setting-${name}`;
  const changed = standard !== undefined && value !== standard;
  return html`<div class="field"><label for=${id}>${W.settings[name] ?? name} ${changed && html`<span class="badge accent" title=${W.settingsPage.defaultIs(shown(name, standard))}>${W.settingsPage.changed}</span>`}</label>
    <${Control} id=${id} name=${name} schema=${schema} nullable=${nullable} value=${value} set=${set} off=${off} />
    <span class="hint">${given.description ?? schema.description}</span>${error && html`<span class="bad">${error.message}</span>`}</div>`;
}

/** @param {{id: string, name: string, schema: any, nullable: boolean, value: any, set: (value: any) => void, off: boolean}} props */
function Control({ id, name, schema, nullable, value, set, off }) {
  if (schema.type === "boolean") return html`<label class="check"><input id=${id} type="checkbox" disabled=${off} checked=${value} onChange=${(e) => set(e.target.checked)} />${value ? W.settingsPage.on : W.settingsPage.off}</label>`;
  if (schema.enum) return html`<select id=${id} disabled=${off} onChange=${(e) => set(e.target.value)}>${schema.enum.map((one) => html`<option value=${one} selected=${one === value}>${one}</option>`)}</select>`;
  if (name === "dead_letter_queue") return off ? html`<input id=${id} disabled value=${value ?? ""} />` : html`<${QueueInput} id=${id} value=${value ?? ""} onInput=${(text) => set(text || null)} />`;
  if (name.endsWith("_ms")) return html`<${Duration} id=${id} value=${value} set=${set} off=${off} />`;
  return html`<input id=${id} type="number" disabled=${off} min=${schema.minimum} max=${schema.maximum} required=${!nullable} placeholder=${nullable && W.settingsPage.unlimited} value=${value ?? ""} onInput=${(e) => set(e.target.value === "" ? null : Number(e.target.value))} />`;
}

/** A number with its unit. @param {{id: string, value: number, set: (value: number) => void, off: boolean}} props */
function Duration({ id, value, set, off }) {
  const [unit, setUnit] = useState(() => UNITS.find((one) => value >= one && value % one === 0) ?? 1000);
  return html`<div class="unit"><input id=${id} type="number" min="0" step="any" required disabled=${off} value=${value / unit} onInput=${(e) => e.target.value !== "" && set(Math.round(Number(e.target.value) * unit))} />
    <select aria-label=${`${id} unit`} disabled=${off} onChange=${(e) => setUnit(Number(e.target.value))}>${[...UNITS].reverse().map((one) => html`<option value=${one} selected=${one === unit}>${W.settingsPage.units[String(one)]}</option>`)}</select></div>`;
}

/** @param {string} name @param {any} value */
const shown = (name, value) => (name === "max_body_bytes" ? bytes(value) : typeof value === "boolean" ? (value ? W.settingsPage.on : W.settingsPage.off) : W.settingValue(name, value));

/** Changes of this queue, newest first, each with what was before. @param {any[]} events oldest first */
export function historyOf(events) {
  const found = [];
  let before = /** @type {any} */ (null);
  for (const event of events) {
    const settings = event.detail?.settings;
    if (!settings) continue;
    if (before) {
      const keys = Object.keys(settings).filter((key) => settings[key] !== before[key]);
      if (keys.length) found.push({ event, keys, before, after: settings });
    }
    before = settings;
  }
  return found.reverse();
}

/** @param {{queue: any, name: string, off: string, reload: () => void}} props */
function History({ queue, name, off, reload }) {
  const query = { tenant: isRoot() ? tenant.value : "", queue: queue.id, kind: ["queue_added", "queue_changed"], order: "newest", limit: 100 };
  const { data, error, reload: again } = useAnswer(V("journal", "events"), query, 4000);
  const { data: queues } = useAnswer(T("queues"), { limit: 1000 });
  const names = new Map((queues?.queues ?? []).map((one) => [one.id, one.name]));
  const told = (key, value) => (key === "dead_letter_queue" && names.has(value) ? names.get(value) : shown(key, value));
  const changes = historyOf([...(data?.events ?? [])].sort((a, b) => a.at - b.at));
  const undo = async (change) => {
    const settings = Object.fromEntries(change.keys.map((key) => [key, change.before[key]]));
    await attempt(() => patch(Q(name), { settings }), W.settingsPage.undone);
    reload();
    again();
  };
  return html`<section class="card"><header><h2>${W.settingsPage.history}</h2></header>
    ${error && html`<div class="pad"><${Failure} error=${error} /></div>`}
    ${data && !changes.length && html`<${Empty} title=${W.settingsPage.noHistory} />`}
    <ul class="list">${changes.map((change) => html`<li key=${String(change.event.offset)}><div class="grow tight">
      ${change.keys.map((key) => html`<span>${W.settingsPage.historyText(W.settings[key] ?? key, told(key, change.before[key]), told(key, change.after[key]))}</span>`)}
      <span class="hint">${W.by(change.event.principal)} · <${Time} at=${change.event.at} /></span></div>
      <${Act} kind="small" barred=${off} onClick=${() => undo(change)}>${W.settingsPage.undo}</${Act}></li>`)}</ul>
  </section>`;
}

/** @param {{name: string, settings: any}} props */
const InOtherWords = ({ name, settings }) => html`<details class="card"><summary class="pad"><strong>${W.settingsPage.words}</strong></summary><div class="pad stack">
  ${Object.entries(OTHERS).map(([dialect, words]) => html`<div class="tight"><h3>${dialect}</h3><dl class="kv">${words.map(([word, value]) => html`<dt class="mono">${word}</dt><dd class="mono">${String(value(settings))}</dd>`)}</dl></div>`)}
  <div class="tight"><h3>${W.settingsPage.json}</h3><pre class="code" tabindex="0">${JSON.stringify({ name, settings }, null, 2)}</pre></div>
  <${Curl} title="curl" method="PATCH" path=${Q(name)} body=${{ settings: { lease_ms: settings.lease_ms, max_attempts: settings.max_attempts } }} />
</div></details>`;
