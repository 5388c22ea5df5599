// The frame of every page: where one is, where one can go, and how the connection is.
import { html, signal, useEffect, useRef } from "./view.js";
import { go, parts, tenant, to, choose } from "./router.js";
import { ask, get, V } from "./api.js";
import { held, prefs, trouble, who } from "./store.js";
import { Icon, Mark } from "./icons.js";
import { Act } from "./widgets/parts.js";
import { isOpen, open } from "./widgets/dialog.js";
import { attempt } from "./widgets/toast.js";
import { W } from "./words.js";

const menu = signal(false);
/** @type {import("../vendor/signals.js").Signal<string[]>} */
const tenants = signal([]);
const NAV = ["", "queues", "map", "exchanges", "listeners", "-", "tail", "history", "-", "credentials", "server"];
/** @type {Record<string, string>} */
const GO = { o: "", q: "queues", t: "tail", m: "map", l: "listeners", e: "exchanges", h: "history", c: "credentials", s: "server" };

/** @param {{page: string, children: any}} props */
export function Shell({ page, children }) {
  const main = useRef(/** @type {HTMLElement | null} */ (null));
  const here = page === "queue" || page === "messages" ? "queues" : page;
  const path = parts.value.join("/");
  useEffect(() => {
    menu.value = false;
    document.title = `${W.titleOf(parts.value)} · Courier`;
    if (document.activeElement?.closest("nav")) main.current?.focus();
  }, [path]);
  useEffect(() => {
    if (who.value?.tenant === null)
      void get(V("tenants"), { limit: 1000 }).then((found) => (tenants.value = found.tenants.map((one) => one.id)), () => {});
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
  return html`<a class="skip" href="#main" onClick=${(e) => (e.preventDefault(), main.current?.focus())}>${W.skip}</a>
    <div class="app">
      <${Side} here=${here} />
      <div>
        <${Top} />
        ${trouble.value && html`<div class="trouble" role="alert">${trouble.value}</div>`}
        <main id="main" tabindex="-1" ref=${main}>${children}</main>
      </div>
    </div>`;
}

/** @param {{here: string}} props */
function Side({ here }) {
  const me = who.value;
  return html`<aside class=${`side ${menu.value ? "open" : ""}`}>
    <div class="row wide"><a class="brand" href=${to([])}><${Mark} />Courier</a>
      <button class="btn plain menu-button" aria-label=${W.close} onClick=${() => (menu.value = false)}><${Icon} name="close" /></button></div>
    <nav aria-label=${W.navLabel}>
      ${NAV.map((name) => name === "-" ? html`<hr />` : html`<a href=${to(name ? [name] : [])} aria-current=${name === here ? "page" : undefined}>
        <${Icon} name=${name || "overview"} />${W.nav[name]}</a>`)}
    </nav>
    <div class="foot">
      <span class="clip" title=${me?.id}>${me?.tenant === null ? W.root : (me?.name ?? me?.id)}</span>
      <span>${W.version(document.documentElement.dataset.version ?? "")}</span>
      <span><a href=${`${document.documentElement.dataset.prefix ?? ""}/docs`} target="_blank" rel="noreferrer">${W.reference}</a></span>
    </div>
  </aside>`;
}

function Top() {
  const theme = prefs.theme.value;
  const next = theme === "auto" ? "light" : theme === "light" ? "dark" : "auto";
  const icon = theme === "auto" ? "auto" : theme === "light" ? "sun" : "moon";
  return html`<header class="top">
    <button class="btn plain menu-button" aria-label=${W.menu} aria-expanded=${menu.value} onClick=${() => (menu.value = !menu.value)}><${Icon} name="menu" /></button>
    <button class="palette-button" onClick=${palette}><${Icon} name="search" /><span class="clip">${W.palette.button}</span><kbd>Ctrl K</kbd></button>
    <span class="grow"></span>
    ${tenants.value.length > 1 && html`<select aria-label=${W.tenant} class="tenant" value=${tenant.value} onChange=${(e) => changeTenant(e.target.value)}>
      ${tenants.value.map((one) => html`<option value=${one} selected=${one === tenant.value}>${one}</option>`)}</select>`}
    <${Act} kind="plain" icon=${held.value ? "play" : "pause"} pressed=${held.value} label=${held.value ? W.live.go : W.live.hold} onClick=${() => (held.value = !held.value)}>
      <span class="label-wide">${held.value ? W.live.held : W.live.live}</span></${Act}>
    <${Act} kind="plain seldom" label=${W.clockKind(prefs.utc.value)} onClick=${() => (prefs.utc.value = !prefs.utc.value)}>${prefs.utc.value ? "UTC" : W.local}</${Act}>
    <${Act} kind="plain" icon=${icon} label=${W.theme(theme)} onClick=${() => (prefs.theme.value = next)} />
    <${Act} kind="plain label-wide" icon="keys" label=${W.keys.title} onClick=${keys} />
    <${Act} kind="plain" icon="out" label=${W.signOut} onClick=${signOut} />
  </header>`;
}

/** @param {string} id */
function changeTenant(id) {
  const path = parts.value[0] ?? "";
  go(to(path ? [path] : []));
  choose({ tenant: id === "default" ? "" : id });
}

async function signOut() {
  await attempt(() => ask("DELETE", "console/session"));
  who.value = null;
}

const palette = async () => open((await import("./widgets/palette.js")).Palette);
const keys = async () => open((await import("./widgets/palette.js")).Keys);

let pending = "";
/** @param {KeyboardEvent} event */
function press(event) {
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    if (!isOpen()) void palette();
    return;
  }
  const target = /** @type {HTMLElement} */ (event.target);
  if (!prefs.keys.value || isOpen() || event.ctrlKey || event.metaKey || event.altKey) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || target.isContentEditable) return;
  if (pending === "g" && event.key in GO) go(to(GO[event.key] ? [GO[event.key]] : []));
  else if (event.key === "/") void palette();
  else if (event.key === "?") void keys();
  else if (event.key === ".") held.value = !held.value;
  else if (event.key === "f") document.querySelector(/** @type {"input"} */ ("[data-find]"))?.focus();
  else if (event.key !== "g") return void (pending = "");
  pending = event.key === "g" && pending !== "g" ? "g" : "";
  event.preventDefault();
}
