// Find pages, queues and messages, and do things, by typing.
import { html, useEffect, useRef, useState } from "../view.js";
import { get, T } from "../api.js";
import { go, to } from "../router.js";
import { prefs } from "../store.js";
import { Icon } from "../icons.js";
import { close, Frame } from "./dialog.js";
import { W } from "../words.js";

/** @typedef {{icon: string, text: string, kind: string, href: string}} Choice */

const PAGES = ["", "queues", "map", "exchanges", "listeners", "tail", "history", "credentials", "server"];
const VERBS = /** @type {const} */ (["send", "purge", "redrive", "pause", "resume"]);

export function Palette() {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [queues, setQueues] = useState(/** @type {string[]} */ ([]));
  const list = useRef(/** @type {HTMLUListElement | null} */ (null));
  const [verb, name] = verbOf(text);
  useEffect(() => {
    const stop = new AbortController();
    get(T("overview"), { find: name, limit: 8, spark: false, sort: "name" }, stop.signal).then(
      (found) => setQueues(found.queues.map((one) => one.name)), () => {});
    return () => stop.abort();
  }, [name]);
  const choices = choicesFor(text, verb, queues);
  const run = (choice) => choice && (close(), go(choice.href));
  const press = (event) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step) setAt(Math.max(0, Math.min(choices.length - 1, at + step)));
    else if (event.key === "Enter") run(choices[at]);
    else return;
    event.preventDefault();
  };
  useEffect(() => list.current?.children[at]?.scrollIntoView({ block: "nearest" }), [at]);
  return html`<${Frame} title=${W.palette.title} kind="palette"><div>
    <input type="text" role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant=${choices.length ? `palette-${at}` : undefined}
      aria-label=${W.palette.title} placeholder=${W.palette.hint} autocomplete="off" value=${text} onKeyDown=${press}
      onInput=${(e) => (setText(e.target.value), setAt(0))} />
    <ul id="palette-list" role="listbox" aria-label=${W.palette.title} ref=${list}>
      ${choices.map((choice, i) => html`<li key=${choice.href + choice.text} id=${`palette-${i}`} role="option" aria-selected=${i === at} onClick=${() => run(choice)} onMouseMove=${() => setAt(i)}>
        <${Icon} name=${choice.icon} /><bdi class="clip">${choice.text}</bdi><span>${choice.kind}</span></li>`)}
    </ul>
  </div></${Frame}>`;
}

/** @param {string} text @returns {[string, string]} */
function verbOf(text) {
  const [first, ...rest] = text.trimStart().split(" ");
  return VERBS.includes(/** @type {any} */ (first)) ? [first, rest.join(" ").trim()] : ["", text.trim()];
}

/** @param {string} text @param {string} verb @param {string[]} queues @returns {Choice[]} */
function choicesFor(text, verb, queues) {
  const wanted = text.trim().toLowerCase();
  if (verb) return queues.map((name) => ({ icon: "send", text: `${W.verbs[verb]} ${name}`, kind: W.palette.action, href: to(["queues", name], { do: verb }) }));
  const pages = PAGES.filter((page) => W.nav[page].toLowerCase().includes(wanted)).map((page) => ({ icon: page || "overview", text: W.nav[page], kind: W.palette.page, href: to(page ? [page] : []) }));
  const verbs = VERBS.filter((one) => wanted && one.startsWith(wanted)).flatMap((one) => queues.slice(0, 3).map((name) => ({ icon: "send", text: `${W.verbs[one]} ${name}`, kind: W.palette.action, href: to(["queues", name], { do: one }) })));
  const found = queues.map((name) => ({ icon: "queues", text: name, kind: W.palette.queue, href: to(["queues", name]) }));
  const message = wanted.length >= 6 ? [{ icon: "search", text: text.trim(), kind: W.palette.message, href: to(["messages", text.trim()]) }] : [];
  return wanted ? [...found, ...pages, ...verbs, ...message] : [...pages, ...found];
}

export const Keys = () => html`<${Frame} title=${W.keys.title}><div class="content">
  <dl class="kv">${W.keys.list.map(([key, text]) => html`<dt><kbd>${key}</kbd></dt><dd>${text}</dd>`)}</dl>
  <label class="check"><input type="checkbox" checked=${prefs.keys.value} onChange=${(e) => (prefs.keys.value = e.target.checked)} />${W.keys.on}</label>
</div></${Frame}>`;
