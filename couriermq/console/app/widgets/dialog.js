// Dialogs: one at a time, closed with Escape, focus returns to where it was.
import { html, signal, useEffect, useRef, useState } from "../view.js";
import { Icon } from "../icons.js";
import { W } from "../words.js";
import { Failure } from "./parts.js";

/** @type {import("../../vendor/signals.js").Signal<any>} */
const current = signal(null);

/** Show a component as a dialog; it gets `close`. @param {any} component @param {Record<string, any>} [props] */
export const open = (component, props = {}) => (current.value = { component, props });
export const close = () => (current.value = null);
export const isOpen = () => current.value !== null;

export function Dialogs() {
  if (!current.value) return null;
  const { component: Component, props } = current.value;
  return html`<${Component} ...${props} />`;
}

/** @param {{title: string, wide?: boolean, kind?: string, children: any, label?: string}} props */
export function Frame({ title, wide, kind = "", children, label }) {
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const shown = useRef(true);
  useEffect(() => {
    const dialog = ref.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      // The event of this close comes later, when another dialog may be open.
      shown.current = false;
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return html`<dialog ref=${ref} class=${`${wide ? "wide" : ""} ${kind}`} aria-label=${label ?? title} onClose=${() => shown.current && close()}
      onClick=${(event) => event.target === ref.current && close()}>
    ${!kind && html`<header><h2>${title}</h2>
      <button type="button" class="btn plain small" aria-label=${W.close} onClick=${close}><${Icon} name="close" /></button></header>`}
    ${children}
  </dialog>`;
}

/**
 * A dialog with fields and one button that does it; stays open with the error when the server refuses.
 * @param {{title: string, verb: string, danger?: boolean, wide?: boolean, disabled?: boolean, act: () => Promise<any>, children: any}} props
 */
export function FormDialog({ title, verb, danger, wide, disabled, act, children }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await act();
      close();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return html`<${Frame} title=${title} wide=${wide}>
    <form onSubmit=${submit}>
      <div class="content">${children}${error && html`<${Failure} error=${error} />`}</div>
      <footer>
        <button type="button" class="btn" onClick=${close}>${W.cancel}</button>
        <button class=${`btn ${danger ? "danger" : "primary"}`} disabled=${busy || disabled}>${busy ? W.working : verb}</button>
      </footer>
    </form>
  </${Frame}>`;
}

/**
 * Ask before something that cannot be undone; with `type`, that text has to be typed.
 * @param {{title: string, text: any, verb: string, type?: string, act: () => Promise<any>}} props
 */
export function Confirm({ title, text, verb, type, act }) {
  const [typed, setTyped] = useState("");
  return html`<${FormDialog} title=${title} verb=${verb} danger=${true} disabled=${type !== undefined && typed !== type} act=${act}>
    <p>${text}</p>
    ${type !== undefined && html`<div class="field"><label for="confirm-name">${W.typeToConfirm(type)}</label>
      <input id="confirm-name" autocomplete="off" value=${typed} onInput=${(e) => setTyped(e.target.value)} /></div>`}
  </${FormDialog}>`;
}
