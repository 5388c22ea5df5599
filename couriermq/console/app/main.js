// The start: sign in if need be, then show the page of the address.
import { html, render, signal, effect } from "./view.js";
import { parts } from "./router.js";
import { ask } from "./api.js";
import { who, trouble } from "./store.js";
import { Shell } from "./shell.js";
import { Toasts } from "./widgets/toast.js";
import { Dialogs } from "./widgets/dialog.js";
import { Failure, Loading } from "./widgets/parts.js";
import { W } from "./words.js";

/** @type {Record<string, () => Promise<any>>} */
const PAGES = {
  "": () => import("./pages/overview.js"),
  queues: () => import("./pages/queues.js"),
  queue: () => import("./pages/queue.js"),
  messages: () => import("./pages/message.js"),
  map: () => import("./pages/map.js"),
  exchanges: () => import("./pages/exchanges.js"),
  listeners: () => import("./pages/listeners.js"),
  tail: () => import("./pages/tail.js"),
  history: () => import("./pages/history.js"),
  credentials: () => import("./pages/credentials.js"),
  server: () => import("./pages/server.js"),
  "sign-in": () => import("./pages/sign-in.js"),
};

/** @type {import("../vendor/signals.js").Signal<Record<string, any>>} */
const loaded = signal({});
const asked = signal(false);

/** @param {string} name */
async function load(name) {
  if (loaded.value[name] || !PAGES[name]) return;
  try {
    const { Page } = await PAGES[name]();
    loaded.value = { ...loaded.value, [name]: Page };
  } catch {
    trouble.value = W.trouble.unreachable;
    setTimeout(() => load(name), 2000);
  }
}

function nameOfPage() {
  if (!who.value) return "sign-in";
  const [first = "", second] = parts.value;
  return first === "queues" && second !== undefined ? "queue" : first;
}

function App() {
  if (!asked.value) return null;
  const name = nameOfPage();
  const Page = loaded.value[name];
  const page = Page ? html`<${Page} />` : PAGES[name] ? html`<${Loading} />` : html`<${Failure} error=${W.noSuchPage} />`;
  return html`${name === "sign-in" ? page : html`<${Shell} page=${name}>${page}</${Shell}>`}<${Dialogs} /><${Toasts} />`;
}

/** The session that the cookie stands for, or that a ticket in the address opens. */
async function begin() {
  const ticket = new URLSearchParams(window.location.hash.slice(1)).get("ticket");
  if (ticket) window.history.replaceState(null, "", window.location.pathname + window.location.search);
  try {
    who.value = ticket ? await ask("POST", "console/session", { body: { ticket } }) : await ask("GET", "console/session");
  } catch {
    who.value = null;
  }
  asked.value = true;
}

effect(() => {
  if (asked.value) void load(nameOfPage());
});
const root = /** @type {HTMLElement} */ (document.getElementById("app"));
root.replaceChildren();
render(html`<${App} />`, root);
void begin();
