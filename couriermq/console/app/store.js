// What all pages share: who is signed in, preferences, the time.
import { signal, effect } from "./view.js";
import { W } from "./words.js";

/** @typedef {{action: string, queues: string[]}} Scope */
/** @typedef {{id: string, name?: string, tenant: string | null, scopes: Scope[], read_only?: boolean, hide_bodies?: boolean}} Who */

/** The caller; null before it is known that somebody is signed in. @type {import("../vendor/signals.js").Signal<Who | null>} */
export const who = signal(null);

/** Whether the server can be reached: "" when all is well. */
export const trouble = signal("");

/** The time, moved once a second for every text that tells an age. */
export const now = signal(Date.now());
let offset = 0;
setInterval(() => {
  if (!document.hidden) now.value = Date.now() + offset;
}, 1000);

/** Ages are counted on the server's clock. @param {number} serverNow */
export function setServerTime(serverNow) {
  offset = serverNow - Date.now();
}

/**
 * @template T
 * @param {string} name
 * @param {T} otherwise
 * @returns {import("../vendor/signals.js").Signal<T>}
 */
export function kept(name, otherwise) {
  const key = `courier.${name}`;
  let value = otherwise;
  try {
    const text = localStorage.getItem(key);
    if (text !== null) value = JSON.parse(text);
  } catch {
    // A browser that keeps nothing still shows everything.
  }
  const one = signal(value);
  effect(() => {
    const text = JSON.stringify(one.value);
    try {
      localStorage.setItem(key, text);
    } catch {
      // As above.
    }
  });
  return /** @type {any} */ (one);
}

export const prefs = {
  /** "auto", "light" or "dark" */
  theme: kept("theme", "auto"),
  utc: kept("utc", false),
  keys: kept("keys", true),
};

effect(() => {
  document.documentElement.dataset.theme = prefs.theme.value;
});

/** Whether live data is held still by the reader. */
export const held = signal(false);

/**
 * Why the caller may not do this, or "" when it may.
 * @param {string | string[]} actions one of these is needed
 * @param {string} [queue] a name; without it: on all queues
 * @param {string} [id] the queue's id
 */
export function barred(actions, queue, id) {
  const list = Array.isArray(actions) ? actions : [actions];
  const changes = list.some((action) => action !== "browse" && action !== "stats" && action !== "audit");
  return who.value?.read_only && changes ? W.barred.readOnly : lacks(list, queue, id);
}

/**
 * The same for actions that change nothing: a read-only console allows them, also where they need a scope for changes.
 * @param {string[]} list
 * @param {string} [queue]
 * @param {string} [id]
 */
export function lacks(list, queue, id) {
  const me = who.value;
  if (!me) return "…";
  if (me.tenant === null) return "";
  const fits = me.scopes.some(
    (scope) =>
      list.includes(scope.action) &&
      (scope.queues.includes("*") || (queue !== undefined && scope.queues.some((one) => one === queue || one === id))),
  );
  return fits ? "" : W.barred.scope(list.join(" or "), queue === undefined);
}
