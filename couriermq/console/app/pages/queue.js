// One queue: what all of its pages share, and which of them is shown.
import { html, signal, useEffect } from "../view.js";
import { patch, Q } from "../api.js";
import { useAnswer } from "../load.js";
import { choose, chosen, parts, tenant, to } from "../router.js";
import { barred } from "../store.js";
import { Act, Failure, Head, Loading, Tabs } from "../widgets/parts.js";
import { open } from "../widgets/dialog.js";
import { attempt } from "../widgets/toast.js";
import { CurlDialog, Operate, Purge, Send } from "./queue-dialogs.js";
import { useQueueRow } from "./queue-now.js";
import { Flags } from "./queues.js";
import { W } from "../words.js";

/** @type {Record<string, () => Promise<any>>} */
const TABS = {
  "": () => import("./queue-now.js"),
  messages: () => import("./queue-messages.js"),
  dead: () => import("./queue-dead.js"),
  receivers: () => import("./queue-receivers.js"),
  settings: () => import("./queue-settings.js"),
};
/** @type {import("../../vendor/signals.js").Signal<Record<string, any>>} */
const loaded = signal({});

export function Page() {
  const [, name, tab = ""] = parts.value;
  return html`<${Queue} key=${`${tenant.value}/${name}`} name=${name} tab=${tab} />`;
}

/** @param {{name: string, tab: string}} props */
function Queue({ name, tab }) {
  const { data: queue, error, reload } = useAnswer(Q(name), {}, 5000);
  const live = useQueueRow(name);
  const row = live.row;
  const off = (action) => barred(action, name, queue?.id);
  useEffect(() => {
    let timer = 0;
    const load = () => TABS[tab]().then(({ Tab }) => (loaded.value = { ...loaded.value, [tab]: Tab }), () => (timer = window.setTimeout(load, 2000)));
    if (TABS[tab] && !loaded.value[tab]) void load();
    return () => clearTimeout(timer);
  }, [tab]);
  const paused = queue?.settings.paused;
  const pause = () => attempt(() => patch(Q(name), { settings: { paused: !paused } }), paused ? W.resumed(name) : W.paused(name)).then(reload);
  const number = row ? row.ready_count + row.delayed_count + row.leased_count : undefined;
  /** @type {Record<string, () => void>} */
  const verbs = {
    send: () => open(Send, { queue: name }), purge: () => open(Purge, { queue: name, number }),
    redrive: () => open(Operate, { verb: "redrive", queue: name, where: {}, ask: true }),
    move: () => open(Operate, { verb: "move", queue: name, where: {} }), pause: () => !paused && void pause(), resume: () => paused && void pause(),
  };
  const wanted = chosen("do");
  useEffect(() => {
    if (!wanted || !queue) return;
    choose({ do: "" });
    const action = wanted === "send" ? "send" : "manage";
    if (verbs[wanted] && !off(action)) verbs[wanted]();
  }, [wanted, queue?.id]);
  if (error && (!queue || /** @type {any} */ (error).status === 404)) return html`<${Head} title=${name} /><${Failure} error=${error} />`;
  const isDead = row?.flags.includes("dead_letters") || tab === "dead";
  const Tab = loaded.value[tab];
  return html`
    <${Head} title=${html`<a class="crumb" href=${to(["queues"])}>${W.queues.title}</a> <span class="crumb" aria-hidden="true">/</span> <bdi>${name}</bdi> ${row && html`<${Flags} row=${row} />`}`}
      actions=${html`
        <${Act} kind="primary" icon="send" barred=${off("send")} onClick=${verbs.send}>${W.verbs.send}</${Act}>
        ${isDead && html`<${Act} barred=${off("manage")} onClick=${verbs.redrive}>${W.verbs.redrive}</${Act}>`}
        <${Act} icon=${paused ? "play" : "pause"} barred=${off("manage")} onClick=${pause}>${paused ? W.verbs.resume : W.verbs.pause}</${Act}>
        <${Act} barred=${off("manage")} onClick=${verbs.move}>${W.verbs.move}</${Act}>
        <${Act} barred=${off("manage")} onClick=${verbs.purge}>${W.verbs.purge}</${Act}>
        <${Act} kind="plain" onClick=${() => open(CurlDialog, { queue: name })}>${W.curl.button}</${Act}>`} />
    <${Tabs} label=${W.queueTabs.label} tabs=${Object.keys(TABS).filter((one) => one !== "dead" || isDead).map((one) => ({ href: to(["queues", name, ...(one ? [one] : [])]), text: W.queueTabs[one], here: one === tab }))} />
    ${!TABS[tab] ? html`<${Failure} error=${W.noSuchPage} />` : Tab ? html`<${Tab} name=${name} queue=${queue} live=${live} reload=${reload} />` : html`<${Loading} />`}`;
}
