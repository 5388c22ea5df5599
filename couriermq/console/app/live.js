// One stream of server-sent events for a page. Tabs that ask for the same share it through a worker.
import { answerOf, get, Problem, T } from "./api.js";
import { parse } from "./exact.js";
import { SERVER } from "./router.js";
import { held, trouble, who } from "./store.js";
import { W } from "./words.js";

const HIDDEN_MS = 30_000, POLL_MS = 3_000;
/** @type {any} */
const types = /** @type {any} */ (window).trustedTypes;
const WORKER = new URL("./live-worker.js", import.meta.url).href;
const policy = types?.createPolicy("courier", { createScriptURL: (url) => {
  if (url === WORKER) return url;
  throw new TypeError("only the worker of live data is loaded");
} });

/** To the worker, or to the same code in this page where the browser has no shared workers. @type {MessagePort | null} */
let line = null;
/** @type {Map<number, Stream>} */
const open = new Map();
let number = 0;

function connect() {
  if (window.SharedWorker) return new SharedWorker(policy ? policy.createScriptURL(WORKER) : WORKER, { type: "module", name: "courier-live" }).port;
  const { port1, port2 } = new MessageChannel();
  void import("./live-worker.js").then(({ serve }) => serve(port2));
  return port1;
}

function port() {
  if (!line) {
    line = connect();
    line.onmessage = ({ data }) => open.get(data.stream)?.take(data.kind, data.data === null ? null : parse(data.data), data.id);
    line.start();
    window.addEventListener("pagehide", () => line?.postMessage({ verb: "leave" }));
  }
  return line;
}

/** @typedef {Record<string, (data: any, id: string) => void>} Handlers */

class Stream {
  /** @param {string} path @param {Record<string, any>} query @param {Handlers} handlers @param {boolean} alone */
  constructor(path, query, handlers, alone) {
    this.path = path;
    this.query = query;
    this.handlers = handlers;
    this.alone = alone;
    this.stream = ++number;
    this.last = "";
    this.hidden = 0;
    this.poll = 0;
    this.running = false;
    this.ended = false;
    this.onVisible = () => this.look();
    document.addEventListener("visibilitychange", this.onVisible);
    this.start();
  }

  get url() {
    const search = new URLSearchParams();
    const query = this.last ? { ...this.query, from: this.last } : this.query;
    for (const [name, value] of Object.entries(query))
      for (const one of Array.isArray(value) ? value : [value]) if (one !== "" && one != null) search.append(name, String(one));
    return `${window.location.origin}${SERVER}${this.path}?${search}`;
  }

  start() {
    open.set(this.stream, this);
    port().postMessage({ verb: "open", stream: this.stream, url: this.url, alone: this.alone });
    this.running = true;
  }

  pause() {
    if (!this.running) return;
    this.running = false;
    open.delete(this.stream);
    port().postMessage({ verb: "close", stream: this.stream });
  }

  look() {
    clearTimeout(this.hidden);
    if (this.ended) return;
    if (document.hidden) this.hidden = window.setTimeout(() => this.pause(), HIDDEN_MS);
    else if (!this.running) this.start();
  }

  /** @param {string} kind @param {any} data @param {string} id */
  take(kind, data, id) {
    if (id) this.last = id;
    if (kind === "open") (trouble.value = ""), clearTimeout(this.poll);
    else if (kind === "error") trouble.value = W.trouble.reconnecting;
    else if (kind === "refused") return void this.refused();
    else if (kind === "gone" && data?.reason === "credential") who.value = null;
    if (!held.value || this.alone) this.handlers[kind]?.(data, id);
  }

  /** An EventSource does not tell why: ask once more, for the server's own words. */
  async refused() {
    clearTimeout(this.poll);
    const stop = new AbortController();
    try {
      const response = await fetch(this.url, { signal: stop.signal });
      if (!response.ok) await answerOf(response);
    } catch (error) {
      if (!this.running) return;
      if (!(error instanceof Problem)) return void (trouble.value = W.trouble.reconnecting);
      trouble.value = "";
      this.handlers.refused?.(error, "");
      if (error.status === 503) void this.ask();
    } finally {
      stop.abort();
    }
  }

  /** Without a stream, because the server has too many, ask again after each answer. */
  async ask() {
    clearTimeout(this.poll);
    const topics = String(this.query.topics).split(",");
    try {
      if (topics.includes("overview")) this.take("snapshot", await get(T("overview"), { ...this.query, topics: "" }), "");
      if (topics.includes("attention")) this.take("attention", await get(T("diagnosis")), "");
    } catch {
      // `get` has said what is wrong.
    }
    if (this.running) this.poll = window.setTimeout(() => void this.ask(), POLL_MS);
  }

  end() {
    this.ended = true;
    clearTimeout(this.poll);
    clearTimeout(this.hidden);
    document.removeEventListener("visibilitychange", this.onVisible);
    this.pause();
  }
}

/**
 * Follow the chosen tenant; returns the function that ends it.
 * @param {Record<string, any>} query topics and filters of the stream
 * @param {Handlers} handlers by the kind of the event; also "open", "error", and "refused" with the Problem
 * @param {boolean} [alone] the stream continues at a place of its own and is not shared with other tabs
 */
export function follow(query, handlers, alone = false) {
  const stream = new Stream(T("live"), query, handlers, alone);
  return () => stream.end();
}
