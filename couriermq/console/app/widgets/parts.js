// Small components of every page.
import { html, useId, useState } from "../view.js";
import { Icon } from "../icons.js";
import { ago, age, instant, duration } from "../format.js";
import { prefs, who } from "../store.js";
import { W } from "../words.js";

/** A time as people say it, exact on hover. @param {{at: number | null | undefined, kind?: "ago" | "age" | "exact"}} props */
export function Time({ at, kind = "ago" }) {
  if (!at) return html`<span class="soft">${W.none}</span>`;
  const text = kind === "ago" ? ago(at) : kind === "age" ? age(at) : instant(at);
  return html`<time datetime=${new Date(at).toISOString()} title=${`${instant(at, true)}${prefs.utc.value ? "" : ` (${new Date(at).toISOString()})`}`}>${text}</time>`;
}

/** @param {{error: any}} props */
export const Failure = ({ error }) => html`<div class="failure" role="alert">${error?.message ?? String(error)}</div>`;

/** @param {{title: string, text?: any, children?: any}} props */
export const Empty = ({ title, text, children }) => html`<div class="empty"><strong>${title}</strong>${text && html`<span>${text}</span>`}${children}</div>`;

export const Loading = () => html`<div class="empty" aria-busy="true">${W.loading}</div>`;

/**
 * A button that explains why it cannot be used.
 * @param {{onClick: () => void, barred?: string, kind?: string, icon?: string, pressed?: boolean, label?: string, children?: any}} props
 */
export function Act({ onClick, barred = "", kind = "", icon, pressed, label, children }) {
  const id = useId();
  const off = barred !== "";
  const button = html`<button type="button" class=${`btn ${kind}`} aria-disabled=${off ? "true" : undefined} aria-pressed=${pressed}
      aria-label=${label} aria-describedby=${off ? id : undefined} onClick=${() => !off && onClick()}>
    ${icon && html`<${Icon} name=${icon} />`}${children}</button>`;
  return off ? html`<span class="why">${button}<span role="tooltip" id=${id}>${barred}</span></span>` : button;
}

/** @param {{state: string}} props */
export const State = ({ state }) => html`<span class=${`badge ${state}`}>${W.states[state] ?? state}</span>`;

/** @param {{tabs: {href: string, text: any, here: boolean}[], label: string}} props */
export const Tabs = ({ tabs, label }) => html`<nav class="tabs" aria-label=${label}>
  ${tabs.map((tab) => html`<a href=${tab.href} aria-current=${tab.here ? "page" : undefined}>${tab.text}</a>`)}
</nav>`;

/** @param {{name: any, value: any, more?: any, dot?: string}} props */
export const Stat = ({ name, value, more, dot }) => html`<div class="stat">
  <span class="name">${dot && html`<span class=${`dot ${dot}`}></span>`}${name}</span>
  <span class="value">${value}</span>${more && html`<span class="more">${more}</span>`}
</div>`;

/** @param {{text: string | (() => string), label?: string}} props a text that takes long to make is made when it is copied */
export function Copy({ text, label }) {
  const [said, say] = useState("");
  const copy = async () => {
    say((await copied(typeof text === "function" ? text() : text)) ? W.copied : W.notCopied);
    setTimeout(() => say(""), 3000);
  };
  return html`<button type="button" class="btn plain small" onClick=${copy}><${Icon} name="copy" />${said || (label ?? W.copy)}</button>`;
}

/** Whether the text is in the clipboard now. Over plain HTTP browsers have the old way only. @param {string} text */
async function copied(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text).then(() => true, () => false);
  let given = false;
  const give = (event) => {
    event.clipboardData.setData("text/plain", text);
    event.preventDefault();
    given = true;
  };
  document.addEventListener("copy", give);
  document.execCommand("copy");
  document.removeEventListener("copy", give);
  return given;
}

/** @param {{title: any, children: any, actions?: any, text?: any}} props */
export const Head = ({ title, text, actions }) => html`<div class="head">
  <div class="grow"><h1>${title}</h1>${text && html`<p>${text}</p>`}</div>
  <div class="row">${actions}</div>
</div>`;

/** @param {{value: string, onInput: (text: string) => void, label: string}} props */
export const Find = ({ value, onInput, label }) => html`<div class="find"><${Icon} name="search" />
  <input type="search" data-find aria-label=${label} placeholder=${label} value=${value} onInput=${(e) => onInput(e.target.value)} /></div>`;

/** Findings, worst first. @param {{findings: any[], actions?: (finding: any) => any, named?: boolean}} props */
export const Findings = ({ findings, actions, named }) => html`<ul class="list">
  ${findings.map((one) => html`<li class="finding" key=${one.code + one.queue_id}>
    <span class=${`sign ${one.level}`} title=${W.levels[one.level]}><span aria-hidden="true">${W.levelSigns[one.level]}</span><span class="out">${W.levels[one.level]}: </span></span>
    <div class="grow tight"><p>${named && one.queue && html`<strong><bdi>${one.queue}</bdi></strong> `}${one.sentence}</p>
      ${Object.keys(one.evidence ?? {}).length > 0 && html`<span class="hint mono">${Object.entries(one.evidence).map(([k, v]) => evidence(k, v)).join(" · ")}</span>`}</div>
    <div class="row">${actions?.(one)}</div>
  </li>`)}
</ul>`;

/** @param {string} name @param {any} value */
function evidence(name, value) {
  if (typeof value === "number" && name.endsWith("_ms")) return `${name.slice(0, -3)} ${duration(value)}`;
  if (typeof value === "number" && /_(at|since)$/.test(name)) return `${name.replace(/_at$/, "")} ${instant(value)}`;
  return `${name.replace(/_count$/, "")} ${value}`;
}

/** Whether the caller is root. */
export const isRoot = () => who.value?.tenant === null;
