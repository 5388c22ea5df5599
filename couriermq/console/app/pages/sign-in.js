// Sign in with a token; the server keeps the session in a cookie that scripts cannot read.
import { html, useState } from "../view.js";
import { ask } from "../api.js";
import { who } from "../store.js";
import { Mark } from "../icons.js";
import { Failure } from "../widgets/parts.js";
import { W } from "../words.js";

export function Page() {
  const [token, setToken] = useState("");
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      who.value = await ask("POST", "console/session", { headers: { authorization: `Bearer ${token.trim()}` } });
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  return html`<main class="sign-in"><form class="card" onSubmit=${submit}>
    <div class="row"><${Mark} /><h1>${W.signIn.title}</h1></div>
    <p class="soft">${W.signIn.text}</p>
    <div class="field"><label for="token">${W.signIn.token}</label>
      <input id="token" type="password" autocomplete="current-password" required spellcheck=${false} value=${token} onInput=${(e) => setToken(e.target.value)} /></div>
    ${error && html`<${Failure} error=${error} />`}
    <button class="btn primary" disabled=${busy}>${busy ? W.working : W.signIn.button}</button>
    <p class="hint">${W.signIn.hint} <code>courier console</code></p>
  </form></main>`;
}
