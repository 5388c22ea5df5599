// Addresses: a page is found by its path below /console, and all that was chosen on it is in the query.
import { signal, computed, batch } from "./view.js";
import { who } from "./store.js";

const HERE = new URL(import.meta.url);
/** Where the console begins, such as "/console/" or "/prefix/console/". */
export const CONSOLE = new URL("../../", HERE).pathname;
/** Where the server's paths begin. */
export const SERVER = new URL("../../../", HERE).pathname;

/** @type {import("../vendor/signals.js").Signal<string>} */
const href = signal(window.location.pathname + window.location.search);

const url = computed(() => new URL(href.value, window.location.origin));

/** The decoded parts of the path: ["queues", "orders", "messages"]. */
export const parts = computed(() => {
  const path = url.value.pathname;
  const below = path.startsWith(CONSOLE) ? path.slice(CONSOLE.length) : "";
  return below.split("/").filter(Boolean).map(decoded);
});

export const query = computed(() => url.value.searchParams);

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The tenant that is looked at: the caller's own, or the one that root has chosen. */
export const tenant = computed(() => who.value?.tenant ?? query.value.get("tenant") ?? "default");

/**
 * The address of a page.
 * @param {string[]} path parts, not encoded
 * @param {Record<string, string | number | null | undefined>} [chosen]
 */
export function to(path, chosen = {}) {
  const search = new URLSearchParams();
  const own = who.value?.tenant ?? "default";
  if (tenant.value !== own) search.set("tenant", tenant.value);
  for (const [name, value] of Object.entries(chosen))
    if (value !== null && value !== undefined && value !== "") search.set(name, String(value));
  const text = search.toString();
  return CONSOLE + path.map(encodeURIComponent).join("/") + (text ? `?${text}` : "");
}

/** Go to an address of this console. @param {string} address @param {boolean} [replace] */
export function go(address, replace = false) {
  if (address === href.value) return;
  window.history[replace ? "replaceState" : "pushState"](null, "", address);
  href.value = address;
  if (!replace) window.scrollTo(0, 0);
}

/**
 * Change what is chosen on this page; a value of "" or null is left out of the address.
 * @param {Record<string, string | number | null | undefined>} changes
 */
export function choose(changes, replace = true) {
  const search = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(changes))
    if (value === null || value === undefined || value === "") search.delete(name);
    else search.set(name, String(value));
  const text = search.toString();
  go(url.value.pathname + (text ? `?${text}` : ""), replace);
}

/** What is chosen. @param {string} name @param {string} [otherwise] */
export const chosen = (name, otherwise = "") => query.value.get(name) ?? otherwise;

window.addEventListener("popstate", () => {
  batch(() => (href.value = window.location.pathname + window.location.search));
});

// Links inside the console change the page without loading it anew.
document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
  if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
  if (link.origin !== window.location.origin || !(link.pathname + "/").startsWith(CONSOLE)) return;
  event.preventDefault();
  go(link.pathname + link.search);
});
