// Who may do what; secrets are shown once.
import { html, useState } from "../view.js";
import { patch, post, remove, T } from "../api.js";
import { SERVER, tenant } from "../router.js";
import { barred, lacks } from "../store.js";
import { useAnswer } from "../load.js";
import { Act, Copy, Empty, Failure, Head, Loading, Time } from "../widgets/parts.js";
import { Confirm, FormDialog, Frame, open } from "../widgets/dialog.js";
import { attempt } from "../widgets/toast.js";
import { Field } from "./queue-dialogs.js";
import { W } from "../words.js";

const ACTIONS = ["send", "receive", "browse", "manage", "stats", "audit"];

export function Page() {
  const off = barred("manage"), unseen = lacks(["manage"]);
  const { data, error, reload } = useAnswer(unseen ? null : T("credentials"), { limit: 1000 }, 5000);
  return html`<${Head} title=${W.credentials.title} text=${W.credentials.text} actions=${html`<${Act} kind="primary" icon="plus" barred=${off} onClick=${() => open(Create, { reload })}>${W.credentials.create}</${Act}>`} />
    ${(error || unseen) && html`<${Failure} error=${error ?? unseen} />`}
    ${!unseen && html`<div class="card">${!data ? html`<${Loading} />` : data.credentials.length === 0 ? html`<${Empty} title=${W.credentials.none} />` : html`<div class="scroll whole" tabindex="0" role="region" aria-label=${W.credentials.title}><table class="plain">
      <thead><tr><th>${W.credentials.name}</th>${ACTIONS.map((one) => html`<th>${one}</th>`)}<th>${W.credentials.expires}</th><th class="num">${W.credentials.limit}</th><th>${W.listeners.state}</th><th><span class="out">${W.credentials.actions}</span></th></tr></thead>
      <tbody>${data.credentials.map((one) => html`<${Row} key=${one.id} one=${one} reload=${reload} off=${off} />`)}</tbody></table></div>`}</div>`}`;
}

/** @param {{one: any, reload: () => void, off: string}} props */
function Row({ one, reload, off }) {
  const rotate = () => open(Confirm, { title: `${W.credentials.rotate}: ${one.name}`, text: W.credentials.rotateText, verb: W.credentials.rotate, act: async () => { const made = await post(T("credentials", one.id, "rotate"), {}); setTimeout(() => open(Secret, { secret: made.secret })); } });
  const drop = () => open(Confirm, { title: W.credentials.deleteTitle(one.name), text: W.credentials.deleteText, verb: W.credentials.deleteIt, type: one.name, act: async () => (await remove(T("credentials", one.id)), reload()) });
  const toggle = () => attempt(() => patch(T("credentials", one.id), { enabled: !one.enabled }), W.credentials.done).then(reload);
  return html`<tr><td><div class="tight"><strong><bdi>${one.name}</bdi></strong><span class="hint mono">${one.id}</span></div></td>
    ${ACTIONS.map((action) => { const scope = one.scopes.filter((item) => item.action === action).flatMap((item) => item.queues); return html`<td>${scope.includes("*") ? html`<span class="badge good">${W.credentials.everywhere}</span>` : scope.length ? scope.join(", ") : html`<span class="soft">${W.credentials.nowhere}</span>`}</td>`; })}
    <td>${one.expires_at ? html`<${Time} at=${one.expires_at} />` : W.credentials.never}</td><td class="num">${one.requests_per_second ?? W.none}</td>
    <td><span class=${`badge ${one.enabled ? "good" : "warning"}`}>${one.enabled ? W.credentials.enabled : W.credentials.disabled}</span></td>
    <td><div class="row"><${Act} kind="small" barred=${off} onClick=${rotate}>${W.credentials.rotate}</${Act}><${Act} kind="small" barred=${off} onClick=${toggle}>${one.enabled ? W.credentials.disable : W.credentials.enable}</${Act}><${Act} kind="small plain" barred=${off} onClick=${drop}>${W.credentials.deleteIt}</${Act}></div></td></tr>`;
}

/** @param {{reload: () => void}} props */
function Create({ reload }) {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState(/** @type {Record<string, string | null>} */ ({}));
  const [expires, setExpires] = useState("");
  const act = async () => {
    const chosenScopes = ACTIONS.filter((one) => typeof scopes[one] === "string").map((action) => ({ action, queues: scopes[action]?.trim() ? /** @type {string} */ (scopes[action]).split(",").map((one) => one.trim()) : ["*"] }));
    const made = await post(T("credentials"), { name, ...(chosenScopes.length ? { scopes: chosenScopes } : {}), ...(expires ? { expires_at: new Date(expires).getTime() } : {}) });
    reload();
    setTimeout(() => open(Secret, { secret: made.secret }));
  };
  return html`<${FormDialog} title=${W.credentials.create} verb=${W.create.verb} act=${act}>
    <${Field} id="credential-name" label=${W.credentials.name}><input id="credential-name" required value=${name} onInput=${(e) => setName(e.target.value)} /></${Field}>
    <fieldset class="tight"><legend class="label">${W.credentials.scopes}</legend><span class="hint">${W.credentials.scopesHint}</span>
      ${ACTIONS.map((action) => html`<div class="row"><label class="check" style=${{ width: "110px" }}><input type="checkbox" checked=${typeof scopes[action] === "string"} onChange=${(e) => setScopes({ ...scopes, [action]: e.target.checked ? "" : null })} />${action}</label>
        ${typeof scopes[action] === "string" && html`<input class="grow" style=${{ width: "auto" }} aria-label=${`${action}: ${W.credentials.queuesHint}`} placeholder=${W.credentials.queuesHint} value=${scopes[action]} onInput=${(e) => setScopes({ ...scopes, [action]: e.target.value })} />`}</div>`)}</fieldset>
    <${Field} id="credential-expires" label=${W.credentials.expires} hint=${W.credentials.expiryHint}><input id="credential-expires" type="datetime-local" value=${expires} onInput=${(e) => setExpires(e.target.value)} /></${Field}></${FormDialog}>`;
}

/** @param {{secret: string}} props */
function Secret({ secret }) {
  const lines = `export COURIER_URL=${window.location.origin}${SERVER.replace(/\/$/, "")}\nexport COURIER_TOKEN=${secret}\nexport COURIER_TENANT=${tenant.value}`;
  return html`<${Frame} title=${W.credentials.secret}><div class="content"><p>${W.credentials.secretOnce}</p><pre class="code fixed" tabindex="0">${lines}</pre><div><${Copy} text=${lines} /></div></div></${Frame}>`;
}
