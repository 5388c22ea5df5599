// Short notices of what was done.
import { html, signal } from "../view.js";
import { Icon } from "../icons.js";
import { W } from "../words.js";

/** @typedef {{id: number, text: string, bad: boolean, link?: {href: string, text: string}}} Toast */
/** @type {import("../../vendor/signals.js").Signal<Toast[]>} */
const toasts = signal([]);
let last = 0;

/** @param {string} text @param {{bad?: boolean, link?: {href: string, text: string}}} [more] */
export function tell(text, { bad = false, link } = {}) {
  const id = ++last;
  toasts.value = [...toasts.value.slice(-3), { id, text, bad, link }];
  if (!bad) setTimeout(() => dismiss(id), 8000);
}

/** @param {unknown} error */
export const tellError = (error) => tell(error instanceof Error ? error.message : String(error), { bad: true });

/** @param {number} id */
const dismiss = (id) => (toasts.value = toasts.value.filter((one) => one.id !== id));

/**
 * Do something and say what became of it.
 * @template V
 * @param {() => Promise<V>} action
 * @param {string | ((value: V) => string)} [done]
 * @returns {Promise<V | undefined>}
 */
export async function attempt(action, done) {
  try {
    const value = await action();
    if (done) tell(typeof done === "function" ? done(value) : done);
    return value;
  } catch (error) {
    tellError(error);
    return undefined;
  }
}

export const Toasts = () => html`<div class="toasts" role="status" aria-live="polite">
  ${toasts.value.map((one) => html`<div key=${one.id} class=${`toast ${one.bad ? "bad" : ""}`}>
    <span class="grow">${one.text}</span>
    ${one.link && html`<a href=${one.link.href}>${one.link.text}</a>`}
    <button class="btn plain small" aria-label=${W.dismiss} onClick=${() => dismiss(one.id)}><${Icon} name="close" /></button>
  </div>`)}
</div>`;
