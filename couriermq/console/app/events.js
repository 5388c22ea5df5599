// Events of the journal as sentences.
import { html } from "./view.js";
import { to } from "./router.js";
import { bytes, count, duration } from "./format.js";
import { W } from "./words.js";

const THINGS = ["tenant", "queue", "exchange", "binding", "listener", "credential"];
/** Kinds that change the control plane. */
export const CHANGES = THINGS.flatMap((thing) => ["added", "changed", "deleted"].map((verb) => `${thing}_${verb}`));
/** Kinds that happen to messages. */
export const MESSAGE_KINDS = ["sent", "received", "acked", "released", "extended", "lease_expired", "dead_lettered", "redriven", "moved", "cancelled", "discarded", "purged", "published"];

/** Which colour stands for a kind. @type {Record<string, string>} */
export const MARKS = {
  sent: "ready", received: "leased", acked: "acked", released: "delayed", extended: "leased", lease_expired: "leased",
  dead_lettered: "dead", discarded: "dead", purged: "dead", cancelled: "dead", redriven: "ready", moved: "ready", published: "ready",
};

/** Whether something was added, changed or deleted; else it happened to a message. @param {any} event */
export const isChange = (event) => /_(added|changed|deleted)$/.test(event.kind);

/** "queue_changed" of a queue as a sentence. @param {any} event */
export function changeText(event) {
  const split = event.kind.lastIndexOf("_");
  const thing = event.kind.slice(0, split);
  const name = event.detail?.name ?? event.queue ?? event.detail?.id ?? "";
  const target = thing === "queue" && event.queue && event.kind !== "queue_deleted" ? html`<a href=${to(["queues", event.queue])}><bdi>${event.queue}</bdi></a>` : html`<bdi>${String(name)}</bdi>`;
  return html`${W.things[thing] ?? thing} ${target} ${W.changeVerbs[event.kind.slice(split + 1)]}`;
}

/** What is worth telling of an event beside its kind and queue. @param {any} event */
export function detailText(event) {
  const detail = event.detail ?? {};
  const told = [
    event.attempt ? W.attempt(event.attempt) : "",
    detail.reason ? (W.reasons[detail.reason] ?? String(detail.reason)) : "",
    detail.target ? `→ ${detail.target}` : "",
    detail.verdict ? `${detail.verdict}${detail.status ? ` ${detail.status}` : ""}` : "",
    detail.latency_ms !== undefined && detail.latency_ms !== null ? duration(detail.latency_ms) : "",
    detail.error ? String(detail.error) : "",
    detail.delay_ms ? W.waits(duration(detail.delay_ms)) : "",
    detail.group ? W.groupIs(detail.group) : "",
    detail.queue_count !== undefined ? W.toQueues(count(detail.queue_count)) : "",
    detail.count !== undefined ? count(detail.count) : "",
    event.kind === "sent" && event.size !== null ? bytes(event.size) : "",
  ];
  return told.filter(Boolean).join(" · ");
}
