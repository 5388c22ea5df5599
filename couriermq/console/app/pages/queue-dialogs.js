// Dialogs that act on queues: create, send, purge, move, delete.
import { html, useEffect, useState } from "../view.js";
import { address, get, post, Q, remove, T } from "../api.js";
import { go, to } from "../router.js";
import { barred } from "../store.js";
import { count } from "../format.js";
import { parse } from "../exact.js";
import { close, Confirm, FormDialog, Frame, open } from "../widgets/dialog.js";
import { Copy } from "../widgets/parts.js";
import { tell } from "../widgets/toast.js";
import { W } from "../words.js";

/** @param {(text: string) => void} set */
const on = (set) => (event) => set(event.target.value);

/** @param {{label: any, hint?: any, id: string, children: any}} props */
export const Field = ({ label, hint, id, children }) => html`<div class="field"><label for=${id}>${label}</label>${children}${hint && html`<span class="hint">${hint}</span>`}</div>`;

export function CreateQueue() {
  const [name, setName] = useState("");
  const [fifo, setFifo] = useState(false);
  const [attempts, setAttempts] = useState("");
  const [dead, setDead] = useState("");
  const act = async () => {
    const settings = { ...(attempts ? { max_attempts: Number(attempts) } : {}), ...(dead ? { dead_letter_queue: dead } : {}) };
    const queue = await post(T("queues"), { name: name.trim(), kind: fifo ? "fifo" : "standard", settings });
    tell(W.create.done(queue.name));
    go(to(["queues", queue.name]));
  };
  return html`<${FormDialog} title=${W.create.title} verb=${W.create.verb} act=${act}>
    <${Field} id="queue-name" label=${W.column.name}><input id="queue-name" required autocomplete="off" value=${name} onInput=${on(setName)} /></${Field}>
    <label class="check"><input type="checkbox" checked=${fifo} onChange=${(e) => setFifo(e.target.checked)} />${W.create.fifo}</label>
    <div class="fields">
      <${Field} id="queue-attempts" label=${W.settings.max_attempts} hint=${W.create.attemptsHint}><input id="queue-attempts" type="number" min="1" value=${attempts} onInput=${on(setAttempts)} /></${Field}>
      <${Field} id="queue-dead" label=${W.settings.dead_letter_queue} hint=${W.create.deadHint}><${QueueInput} id="queue-dead" value=${dead} onInput=${setDead} /></${Field}>
    </div>
  </${FormDialog}>`;
}

/** A field for the name of a queue that offers those there are. @param {{id: string, value: string, onInput: (text: string) => void, required?: boolean}} props */
export function QueueInput({ id, value, onInput, required }) {
  const [names, setNames] = useState(/** @type {string[]} */ ([]));
  useEffect(() => {
    const stop = new AbortController();
    get(T("overview"), { find: value, limit: 20, spark: false }, stop.signal).then((found) => setNames(found.queues.map((row) => row.name)), () => {});
    return () => stop.abort();
  }, [value]);
  return html`<input id=${id} list=${`${id}-list`} autocomplete="off" required=${required} value=${value} onInput=${on(onInput)} /><datalist id=${`${id}-list`}>${names.map((name) => html`<option value=${name} />`)}</datalist>`;
}

/** The JSON of a message to send. @param {any} form */
function draftOf(form) {
  /** @type {any} */
  const draft = form.kind === "json" ? { json: parse(form.body) } : form.kind === "base64" ? { body_base64: form.body.replace(/\s+/g, "") } : { body: form.body };
  if (form.contentType) draft.content_type = form.contentType;
  const attributes = attributesOf(form.attributes);
  if (Object.keys(attributes).length) draft.attributes = attributes;
  if (form.delay) draft.delay_ms = Math.round(Number(form.delay) * 1000);
  if (form.group) draft.group = form.group;
  if (form.id) draft.id = form.id;
  return draft;
}

/** `name=value` lines; a value that reads as a number or boolean is one. @param {string} text */
export function attributesOf(text) {
  /** @type {Record<string, any>} */
  const found = {};
  for (const line of text.split("\n").map((one) => one.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(W.send.badAttribute(line));
    const value = line.slice(at + 1).trim();
    found[line.slice(0, at).trim()] = /^(true|false|-?\d+(\.\d+)?)$/.test(value) ? parse(value) : value.replace(/^"(.*)"$/, "$1");
  }
  return found;
}

const EDITED_BYTES = 1_048_576;

/** Why a message cannot be edited and sent again. @param {string} queue @param {any} message */
export const editBarred = (queue, message) => barred("send", queue) || (message.size > EDITED_BYTES ? W.messages.tooLarge : "");

/** Edit a message, its whole body, and send it again. @param {string} queue @param {any} message */
export async function edit(queue, message) {
  const whole = message.body_truncated ? await get(Q(queue, "messages", message.id)) : message;
  open(Send, { queue, from: whole });
}

/** @param {{queue: string, exchange?: string, from?: any}} props `from`: a message to edit and send again */
export function Send({ queue, exchange, from }) {
  const [form, setForm] = useState({
    kind: from?.body_base64 !== undefined ? "base64" : "text", body: from?.body ?? from?.body_base64 ?? "", contentType: from?.content_type ?? "",
    attributes: Object.entries(from?.attributes ?? {}).map(([k, v]) => `${k}=${v}`).join("\n"), delay: "", group: from?.group ?? "", id: "",
  });
  const [many, setMany] = useState("1");
  const set = (name) => on((value) => setForm({ ...form, [name]: value }));
  const act = async () => {
    const draft = draftOf(form);
    const path = exchange ? T("exchanges", exchange, "messages") : Q(queue, "messages");
    const number = Math.min(1000, Math.max(1, Number(many) || 1));
    const answer = await post(path, number === 1 ? draft : { messages: Array.from({ length: number }, () => draft) });
    const failed = answer.results?.find((one) => one.error);
    if (failed) throw new Error(failed.error.detail);
    tell(exchange ? W.send.published(answer.queue_count ?? number) : W.send.done(count(number)), number === 1 && !exchange ? { link: { href: to(["messages", answer.id], { queue }), text: W.send.open } } : {});
  };
  return html`<${FormDialog} title=${exchange ? W.send.publishTitle(exchange) : W.send.title(queue)} verb=${exchange ? W.send.publish : W.send.verb} wide=${true} act=${act}>
    <div class="fields">
      <${Field} id="send-kind" label=${W.send.kind}><select id="send-kind" value=${form.kind} onChange=${set("kind")}>${["text", "json", "base64"].map((kind) => html`<option value=${kind} selected=${kind === form.kind}>${W.send.kinds[kind]}</option>`)}</select></${Field}>
      <${Field} id="send-type" label=${W.column.contentType}><input id="send-type" value=${form.contentType} placeholder=${W.send.types[form.kind]} onInput=${set("contentType")} /></${Field}>
    </div>
    <${Field} id="send-body" label=${W.body.title}><textarea id="send-body" rows="7" spellcheck=${false} value=${form.body} onInput=${set("body")}></textarea></${Field}>
    <${Field} id="send-attributes" label=${W.attributes} hint=${W.send.attributesHint}><textarea id="send-attributes" rows="2" spellcheck=${false} value=${form.attributes} onInput=${set("attributes")}></textarea></${Field}>
    <div class="fields">
      <${Field} id="send-delay" label=${W.send.delay}><input id="send-delay" type="number" min="0" step="any" value=${form.delay} onInput=${set("delay")} /></${Field}>
      <${Field} id="send-group" label=${W.group}><input id="send-group" value=${form.group} onInput=${set("group")} /></${Field}>
      ${!exchange && html`<${Field} id="send-many" label=${W.send.many}><input id="send-many" type="number" min="1" max="1000" value=${many} onInput=${on(setMany)} /></${Field}>`}
    </div>
  </${FormDialog}>`;
}

/** Purge with its progress. @param {{queue: string, number?: number}} props */
export function Purge({ queue, number }) {
  const [state, set] = useState(/** @type {any} */ (null));
  const act = async () => {
    const work = post(Q(queue, "purge"));
    let ended = false;
    const done = work.finally(() => (ended = true));
    done.catch(() => {});
    while (!ended) {
      await Promise.race([done.catch(() => {}), new Promise((resolve) => setTimeout(resolve, 100))]);
      const now = ended ? null : await get(Q(queue, "purge")).catch(() => null);
      // One that has ended is the purge before, which this one has not replaced yet.
      if (now?.ended_at === null) set(now);
    }
    let purge = await done;
    while (purge.ended_at === null) {
      await new Promise((resolve) => setTimeout(resolve, 500));
      set((purge = await get(Q(queue, "purge"))));
    }
    tell(W.purge.done(count(purge.count), queue));
  };
  return html`<${FormDialog} title=${W.purge.title(queue)} verb=${W.verbs.purge} danger=${true} act=${act}>
    <p>${W.purge.text(count(number))}</p>
    ${state && html`<div class="tight" role="status"><${Progress} done=${state.count} total=${number} /><span class="hint">${W.purge.soFar(count(state.count))}</span></div>`}
  </${FormDialog}>`;
}

/** @param {{done: number, total: number | null | undefined}} props */
export const Progress = ({ done, total }) => html`<div class="progress" role="progressbar" aria-label=${W.progress} aria-valuenow=${total ? Math.min(100, Math.round((done / total) * 100)) : undefined} aria-valuemin="0" aria-valuemax="100"><i style=${{ width: `${total ? Math.min(100, (done / total) * 100) : 15}%` }}></i></div>`;

/** @param {{queue: string}} props */
export function DeleteQueue({ queue }) {
  return html`<${Confirm} title=${W.deleteQueue.title(queue)} text=${W.deleteQueue.text} verb=${W.deleteQueue.verb} type=${queue} act=${async () => {
    
    await remove(Q(queue));
    tell(W.deleteQueue.done(queue));
    go(to(["queues"]));
  }} />`;
}

/**
 * Do something to all messages that match: count first, then run it in the server with progress.
 * @param {{verb: string, queue: string, where: any, target?: string, ask?: boolean}} props
 */
export function Operate({ verb, queue, where, target: given = "", ask = false }) {
  const [target, setTarget] = useState(given);
  const [perSecond, setPerSecond] = useState("");
  const [preview, setPreview] = useState(/** @type {any} */ (null));
  const order = { verb, queue, where, target: target || null, per_second: perSecond ? Number(perSecond) : null };
  useEffect(() => {
    if (verb === "move" && !target) return;
    post(T("operations"), { ...order, preview: true }).then(setPreview, (error) => setPreview({ error }));
  }, [target]);
  const act = async () => watch(await post(T("operations"), order));
  return html`<${FormDialog} title=${W.operations.title(W.verbs[verb], queue)} verb=${W.verbs[verb]} danger=${verb === "remove"} act=${act}>
    <p>${W.operations.text[verb]}</p>
    ${(ask || verb === "move" || verb === "replay") && html`<${Field} id="operation-target" label=${W.operations.target} hint=${verb === "redrive" ? W.operations.targetHint : ""}><${QueueInput} id="operation-target" required=${verb === "move"} value=${target} onInput=${setTarget} /></${Field}>`}
    <${Field} id="operation-rate" label=${W.operations.rate} hint=${W.operations.rateHint}><input id="operation-rate" type="number" min="1" value=${perSecond} onInput=${on(setPerSecond)} /></${Field}>
    ${preview && (preview.error ? html`<p class="bad">${preview.error.message}</p>` : html`<p class="note">${W.operations.preview(count(preview.matched_count), preview.complete, count(preview.looked_count), preview.without_body_count)}</p>`)}
  </${FormDialog}>`;
}

/** Show how far an operation has come, until it has ended. @param {any} operation */
export function watch(operation) {
  setTimeout(() => open(Watching, { operation }));
}

/** @param {{operation: any}} props */
function Watching({ operation }) {
  const [now, set] = useState(operation);
  useEffect(() => {
    let timer = 0;
    const look = async () => {
      const next = await get(T("operations", operation.id)).catch(() => null);
      if (next) set(next);
      if (!next || next.state === "running") timer = window.setTimeout(look, 400);
    };
    void look();
    return () => clearTimeout(timer);
  }, []);
  const stop = async () => set(await remove(T("operations", operation.id)));
  const running = now.state === "running";
  return html`<${Frame} title=${W.operations.watching(W.verbs[now.verb], now.queue)}><div>
    <div class="content" role="status">
      <${Progress} done=${running ? now.looked_count : 1} total=${running ? now.total_count : 1} />
      <p>${W.operations.states[now.state]} ${W.operations.soFar(count(now.done_count), now.failed_count ? count(now.failed_count) : "")}</p>
      ${now.error && html`<p class="bad">${now.error}</p>`}
    </div>
    <footer>${running && html`<button type="button" class="btn" onClick=${stop}>${W.operations.cancel}</button>`}<button type="button" class="btn primary" onClick=${close}>${running ? W.operations.background : W.close}</button></footer>
  </div></${Frame}>`;
}

/** A call as a curl command, with the token as a variable. @param {{method: string, path: string, body?: any, title?: string}} props */
export function Curl({ method, path, body, title }) {
  const text = `curl -X ${method} ${address(path)} \\\n  -H "Authorization: Bearer $COURIER_TOKEN"${body === undefined ? "" : ` \\\n  -H "Content-Type: application/json" \\\n  -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`}`;
  return html`<div class="tight">${title && html`<h3>${title}</h3>`}<pre class="code fixed" tabindex="0">${text}</pre><div><${Copy} text=${text} /></div></div>`;
}

/** @param {{queue: string}} props */
export const CurlDialog = ({ queue }) => html`<${Frame} title=${W.curl.title(queue)} wide=${true}><div class="content">
  <p class="soft">${W.curl.text}</p>
  <${Curl} title=${W.verbs.send} method="POST" path=${Q(queue, "messages")} body=${{ body: "hello" }} />
  <${Curl} title=${W.verbs.receive} method="POST" path=${Q(queue, "receive")} body=${{ limit: 10, wait_ms: 10000 }} />
  <${Curl} title=${W.curl.browse} method="GET" path=${Q(queue, "messages")} />
</div></${Frame}>`;
