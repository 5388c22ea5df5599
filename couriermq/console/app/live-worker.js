// Holds the streams of all tabs of this browser: one connection for each address.

/** @typedef {{stream: number, port: MessagePort}} Reader */

class Source {
  /** @param {string} url @param {boolean} alone */
  constructor(url, alone) {
    this.url = url;
    this.alone = alone;
    /** @type {Reader[]} */
    this.readers = [];
    /** The newest state, for tabs that come later. @type {Record<string, any>} */
    this.newest = {};
    this.last = "";
    this.retry = 0;
    this.connect();
  }

  connect() {
    const url = new URL(this.url);
    if (this.last) url.searchParams.set("from", this.last);
    this.events = new EventSource(url.href);
    this.events.onopen = () => this.tell("open", null, "");
    this.events.onerror = () => this.failed();
    for (const kind of ["snapshot", "rates", "event", "skipped", "attention", "gone"])
      this.events.addEventListener(kind, (event) => this.heard(kind, /** @type {MessageEvent} */ (event)));
  }

  failed() {
    // The browser tries again by itself unless the server has answered with an error.
    if (this.events?.readyState !== EventSource.CLOSED) return this.tell("error", null, "");
    this.tell("refused", null, "");
    clearTimeout(this.retry);
    this.retry = setTimeout(() => this.connect(), 5000);
  }

  /** @param {string} kind @param {MessageEvent} event */
  heard(kind, event) {
    const id = kind === "event" || kind === "skipped" ? event.lastEventId : "";
    if (id) this.last = id;
    // Large integers survive because the tab parses the text itself.
    this.remember(kind, event.data);
    this.tell(kind, event.data, id);
  }

  /** @param {string} kind @param {string} text */
  remember(kind, text) {
    if (this.alone) return;
    if (kind === "snapshot") this.newest = { ...this.newest, snapshot: text, rates: [] };
    else if (kind === "rates") this.newest.rates = [...(this.newest.rates ?? []), text].slice(-120);
    else if (kind === "attention") this.newest.attention = text;
  }

  /** @param {Reader} reader */
  join(reader) {
    this.readers.push(reader);
    if (this.events?.readyState === EventSource.OPEN) send(reader, "open", null, "");
    if (this.newest.snapshot) send(reader, "snapshot", this.newest.snapshot, "");
    for (const text of this.newest.rates ?? []) send(reader, "rates", text, "");
    if (this.newest.attention) send(reader, "attention", this.newest.attention, "");
  }

  /** @param {string} kind @param {string | null} text @param {string} id */
  tell(kind, text, id) {
    for (const reader of this.readers) send(reader, kind, text, id);
  }

  close() {
    clearTimeout(this.retry);
    this.events?.close();
  }
}

/** @param {Reader} reader @param {string} kind @param {string | null} text @param {string} id */
function send(reader, kind, text, id) {
  reader.port.postMessage({ stream: reader.stream, kind, data: text, id });
}

/** @type {Map<string, Source>} */
const sources = new Map();

/** @param {MessagePort} port @param {any} order */
function obey(port, order) {
  if (order.verb === "open") {
    const key = order.alone ? `${order.url}#${order.stream}#${Math.random()}` : order.url;
    const source = sources.get(key) ?? new Source(order.url, order.alone);
    sources.set(key, source);
    source.join({ stream: order.stream, port });
  } else leave(port, order.verb === "close" ? order.stream : null);
}

/** @param {MessagePort} port @param {number | null} stream null: all streams of the tab */
function leave(port, stream) {
  for (const [key, source] of sources) {
    source.readers = source.readers.filter((one) => one.port !== port || (stream !== null && one.stream !== stream));
    if (source.readers.length) continue;
    source.close();
    sources.delete(key);
  }
}

/** @param {MessagePort} port of a tab */
export function serve(port) {
  port.onmessage = ({ data }) => obey(port, data);
}

// @ts-ignore: the global scope is a SharedWorker's, or a page's that has none
self.onconnect = (event) => serve(event.ports[0]);
