// Bodies of messages: only ever as text, in part where they are large.
import { html, useState } from "../view.js";
import { parseBody, NumberText } from "../exact.js";
import { bytes, count } from "../format.js";
import { who } from "../store.js";
import { W } from "../words.js";

const SHOWN_CHARS = 65_536, TREE_CHARS = 262_144, TREE_ITEMS = 200, HEX_BYTES = 4_096;

/** @param {{message: any, download?: string}} props */
export function Body({ message, download }) {
  const text = message.body ?? null;
  const binary = message.body_base64 ?? null;
  const tree = text !== null && text.length <= TREE_CHARS && !message.body_truncated ? parseBody(text) : undefined;
  const isTree = tree !== null && typeof tree === "object" && !(tree instanceof NumberText);
  const [chosenView, setView] = useState(/** @type {string | null} */ (null));
  const [shown, setShown] = useState(!who.value?.hide_bodies);
  if (text === null && binary === null) return html`<p class="soft">${W.body.absent}</p>`;
  if (!shown) return html`<${HiddenBody} show=${() => setShown(true)} />`;
  const view = chosenView ?? (isTree ? "tree" : text !== null ? "text" : "hex");
  const views = [isTree && "tree", text !== null && "text", "hex"].filter(Boolean);
  return html`<div class="tight">
    <div class="row wide"><div class="chips" role="group" aria-label=${W.body.view}>${views.map((one) => html`<button type="button" class="chip" aria-pressed=${view === one} onClick=${() => setView(/** @type {string} */ (one))}>${W.body.views[String(one)]}</button>`)}</div>
      <span class="row"><span class="hint">${message.size < 1024 ? bytes(message.size) : W.body.size(bytes(message.size), count(message.size))}</span>${download && html`<a class="btn small plain" href=${download} download>${W.body.download}</a>`}</span></div>
    ${view === "tree" && html`<div class="code tree" tabindex="0"><${Tree} value=${tree} depth=${0} /></div>`}
    ${view === "text" && html`<${Text} text=${text ?? ""} whole=${message.size} cut=${message.body_truncated} />`}
    ${view === "hex" && html`<pre class="code fixed" tabindex="0">${hex(bytesOf(text, binary))}</pre>`}
  </div>`;
}

/** What stands for a body that policy hides until somebody asks for it. @param {{show: () => void}} props */
export const HiddenBody = ({ show }) => html`<div class="row"><span class="soft">${W.body.hidden}</span><button type="button" class="btn small" onClick=${show}>${W.body.show}</button></div>`;

/** @param {{text: string, whole: number, cut: boolean}} props */
function Text({ text, whole, cut }) {
  const [limit, setLimit] = useState(SHOWN_CHARS);
  const more = text.length > limit;
  return html`<pre class="code" tabindex="0" dir="auto">${more ? text.slice(0, limit) : text}</pre>
    ${more && html`<div class="row"><span class="hint">${W.body.part(count(limit), count(text.length))}</span><button type="button" class="btn small" onClick=${() => setLimit(limit + 4 * SHOWN_CHARS)}>${W.body.more}</button></div>`}
    ${!more && cut && html`<span class="hint">${W.body.truncated(bytes(whole))}</span>`}`;
}

/** @param {{name?: string, value: any, depth: number}} props */
function Tree({ name, value, depth }) {
  const [limit, setLimit] = useState(TREE_ITEMS);
  const key = name === undefined ? null : html`<span class="k">${name}</span>: `;
  if (value instanceof NumberText) return html`<div class="leaf">${key}<span class="n">${value.text}</span></div>`;
  if (value === null || typeof value !== "object") return html`<div class="leaf">${key}<span class=${typeof value === "string" ? "s" : "w"}>${typeof value === "string" ? JSON.stringify(value) : String(value)}</span></div>`;
  const list = Array.isArray(value);
  const entries = list ? value.map((item, i) => /** @type {[string, any]} */ ([String(i), item])) : Object.entries(value);
  return html`<${Fold} depth=${depth} summary=${html`${key}<span class="soft">${list ? `[${count(entries.length)}]` : `{${count(entries.length)}}`}</span>`}>
    ${() => html`${entries.slice(0, limit).map(([k, item]) => html`<${Tree} key=${k} name=${k} value=${item} depth=${depth + 1} />`)}
      ${entries.length > limit && html`<button type="button" class="btn small plain" onClick=${() => setLimit(limit + TREE_ITEMS)}>${W.body.moreItems(count(entries.length - limit))}</button>`}`}
  </${Fold}>`;
}

/** Children are made when it is opened: a tree may be deep. @param {{depth: number, summary: any, children: any}} props */
function Fold({ depth, summary, children }) {
  const [isOpen, setOpen] = useState(depth < 3);
  return html`<details open=${isOpen} onToggle=${(e) => setOpen(e.currentTarget.open)}><summary>${summary}</summary>${isOpen && children()}</details>`;
}

/** @param {string | null} text @param {string | null} binary */
function bytesOf(text, binary) {
  if (text !== null) return new TextEncoder().encode(text.slice(0, HEX_BYTES)).slice(0, HEX_BYTES);
  const raw = atob((binary ?? "").slice(0, Math.ceil((HEX_BYTES * 4) / 3 / 4) * 4));
  return Uint8Array.from(raw, (char) => char.charCodeAt(0)).slice(0, HEX_BYTES);
}

/** @param {Uint8Array} data */
function hex(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const part = [...data.slice(at, at + 16)];
    const codes = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = part.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${codes.padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}

/** One line of a body for lists. @param {any} message */
export function preview(message) {
  if (who.value?.hide_bodies) return W.body.hidden;
  if (message.body !== undefined) return message.body.slice(0, 256).replace(/\s+/g, " ");
  return message.body_base64 !== undefined ? W.body.binary(bytes(message.size)) : W.none;
}

/** @param {{attributes: Record<string, any>}} props */
export const Attributes = ({ attributes }) => {
  const entries = Object.entries(attributes ?? {});
  return entries.length ? html`<dl class="kv">${entries.map(([name, value]) => html`<dt class="mono"><bdi>${name}</bdi></dt><dd class="mono"><bdi>${String(value)}</bdi></dd>`)}</dl>` : html`<span class="soft">${W.none}</span>`;
};
