// Every text of the console. Our words come first; common words for the same thing stand next to them.
import { duration } from "./format.js";

/** @param {number | string} n @param {string} one @param {string} [many] */
const plural = (n, one, many = `${one}s`) => `${n} ${String(n) === "1" ? one : many}`;

/** @type {Record<string, string>} */
const nav = {
  "": "Overview", queues: "Queues", map: "Flow map", exchanges: "Exchanges", listeners: "Listeners", tail: "Tail",
  history: "History", credentials: "Credentials", server: "Server",
};

/** @type {Record<string, string>} */
const settings = {
  delay_ms: "Delay", lease_ms: "Lease (visibility timeout, lock)", retention_ms: "Retention (TTL)", max_attempts: "Attempts (deliveries)",
  max_leased: "Leased at most (in flight)",
  retry_delay_ms: "Delay before a retry", dead_letter_queue: "Dead letter queue (DLQ)", paused: "Paused", max_body_bytes: "Largest body",
  late_ack: "Late acks", archive_bodies: "Keep bodies in the journal", keep_delivered: "Keep delivered messages",
};

export const W = {
  none: "–", loading: "Loading…", working: "Working…", cancel: "Cancel", close: "Close", dismiss: "Dismiss", all: "All", change: "Change", created: "Created",
  copy: "Copy", copied: "Copied", notCopied: "Not copied: select the text", copyLink: "Copy link", openThing: "Open", reload: "Load again", save: "Save", time: "Time", asTable: "Show as table",
  selected: "Selected", attributes: "Attributes", group: "Group", trace: "Trace", backlog: "Backlog", progress: "Progress", local: "Local", tenant: "Tenant",
  justNow: "just now", root: "root", reference: "API reference", menu: "Menu", skip: "Skip to the content", navLabel: "Pages", signOut: "Sign out",
  noSuchPage: "There is no such page.", createQueue: "Create queue",
  ago: (text) => `${text} ago`,
  inTime: (text) => `in ${text}`,
  by: (who) => `by ${who ?? "Courier"}`,
  version: (text) => `Courier ${text}`,
  select: (name) => `Select ${name}`,
  theme: (name) => `Colours: ${name}. Change`,
  clockKind: (utc) => (utc ? "Times are UTC. Show local times" : "Times are local. Show UTC"),
  typeToConfirm: (name) => `Type ${name} to confirm`,
  attempt: (n) => `attempt ${n}`,
  waits: (text) => `waits ${text}`,
  groupIs: (text) => `group ${text}`,
  toQueues: (n) => `to ${plural(n, "queue")}`,
  died: (reason, queue, attempts) => `${reason}, in ${queue ?? "a queue that was deleted"}, after ${plural(attempts, "attempt")}`,
  paused: (name) => `${name} is paused: it takes messages and gives none.`,
  resumed: (name) => `${name} gives messages again.`,
  sparkLabel: (sent, acked) => `Last hour: ${sent} sent, ${acked} acked`,
  titleOf: (parts) => (parts.length > 1 ? `${parts[1]} · ` : "") + (nav[parts[0] ?? ""] ?? parts[0]),
  nav,
  live: { live: "Live", held: "Held", hold: "Hold live data still", go: "Go on with live data" },
  common: { lease: "visibility timeout, lock", dead: "to dead letters (DLQ)" },
  /** @type {Record<string, string>} */
  states: { ready: "Ready", delayed: "Delayed", leased: "Leased", acked: "Acked", dead: "Dead", discarded: "Discarded", active: "Active", paused: "Paused", disabled: "Disabled" },
  counted: { delayed: (n) => `${n} delayed` },
  /** @type {Record<string, string>} */
  kinds: {
    sent: "Sent", received: "Received", acked: "Acked", released: "Released", extended: "Extended", lease_expired: "Lease expired", dead_lettered: "Dead", discarded: "Discarded",
    purged: "Purged", redriven: "Redriven", moved: "Moved", cancelled: "Cancelled", published: "Published",
  },
  /** @type {Record<string, string>} */
  things: { tenant: "Tenant", queue: "Queue", exchange: "Exchange", binding: "Binding", listener: "Listener", credential: "Credential", record: "Record" },
  /** @type {Record<string, string>} */
  changeVerbs: { added: "was created", changed: "was changed", deleted: "was deleted" },
  /** @type {Record<string, string>} */
  levels: { critical: "Critical", warning: "Warning", info: "Note" },
  /** @type {Record<string, string>} */
  levelSigns: { critical: "!", warning: "!", info: "i" },
  /** @type {Record<string, string>} */
  flags: { paused: "Paused", dead_letters: "Dead letters", listeners: "Listeners" },
  /** @type {Record<string, string>} */
  reasons: { "attempts exhausted": "Too many attempts", retention: "Too old" },
  /** @type {Record<string, [string, string]>} */
  terms: { listener: ["listener", "webhook"] },
  perSecond: {
    sent: "Sent/s", acked: "Acked/s", dead: "Dead/s",
    releasedExpired: (a, b) => `${a} released, ${b} expired`,
  },
  column: {
    name: "Name", state: "State", oldest: "Oldest", sent: "Sent/s", acked: "Acked/s", dead: "Dead/s", hour: "Last hour", bytes: "Bytes", deadTo: "Dead letters to (DLQ)", attempts: "Attempts", size: "Size",
    death: "Died of", contentType: "Content type", leaseEnds: "Lease ends", due: "Due", discard: "Discarded at",
  },
  /** @type {Record<string, string>} */
  verbs: { send: "Send", receive: "Receive", purge: "Purge", redrive: "Redrive", pause: "Pause", resume: "Resume", move: "Move", remove: "Remove", resend: "Resend", cancel: "Cancel message", replay: "Replay", discard: "Discard" },
  barred: {
    readOnly: "This console is read-only (setting console_read_only).",
    scope: (actions, everywhere) => `Your credential lacks the scope ${actions}${everywhere ? " on all queues" : ""}.`,
  },
  trouble: { unreachable: "The server cannot be reached. Trying again…", reconnecting: "The connection was lost. Reconnecting; what was missed will be read then." },
  problem: { status: (n) => `The server answered ${n}.`, unreadable: "The answer cannot be read." },
  signIn: {
    title: "Courier console", text: "Sign in with the root token or with the secret of a credential.", token: "Token", button: "Sign in",
    hint: "The session is kept in a cookie that scripts cannot read. On the server, this command opens a browser that is signed in:",
  },
  palette: { button: "Find queues, messages, pages…", title: "Find or do", hint: "A queue, a message id, a page, or “purge orders”", page: "page", queue: "queue", action: "action", message: "message by id" },
  keys: {
    title: "Keys", on: "Use single keys",
    /** @type {[string, string][]} */
    list: [["Ctrl K  /", "Find or do"], ["j  k", "Next and previous row"], ["Enter", "Open the row"], ["x", "Select the row"], ["r", "Redrive (dead letters)"], ["f", "Go to the search field"], [".", "Hold live data still, or go on"],
      ["g o", "Overview"], ["g q", "Queues"], ["g t", "Tail"], ["g m", "Flow map"], ["g l", "Listeners"], ["g e", "Exchanges"], ["g h", "History"], ["g c", "Credentials"], ["g s", "Server"], ["?", "This list"]],
  },
  health: {
    ready: "Ready", unready: "Takes no writes",
    disk: (free) => `${free} disk free`,
    sync: (ms) => (ms === undefined || ms === null ? "" : `sync p99 ${ms.toFixed(1)} ms`),
    archive: (archive) => (archive ? `${plural(archive.segment_count, "archive segment")}` : ""),
    tables: (lake) => (lake?.until ? `tables ${duration(Math.max(0, Date.now() - lake.until))} old` : ""),
  },
  overview: {
    title: "Overview", attention: "Needs attention", calm: "Nothing needs attention", calmText: "No queue is stuck, no listener fails, and there is room on the disk.",
    acknowledge: "Seen", acknowledgeLabel: (text) => `Seen: ${text}`, showSeen: (n) => `Show ${n} seen`,
    byBacklog: "Longest backlog", byAge: "Oldest message", nothingWaits: "Nothing waits", changes: "Who changed what", noChanges: "No changes yet",
  },
  queues: {
    title: "Queues", text: "Looking never leases a message.", find: "Find by name", none: "No queues yet", noneText: "Create one here, or send with any of the four APIs after creating it there.",
    nothing: (text) => `No queue has “${text}” in its name`, count: (n) => plural(n, "queue"),
  },
  bulk: {
    label: "Selection", clear: "Clear", allMessages: "All that match:",
    selected: (n) => `${plural(n, "queue")} selected:`, all: (n) => `All ${plural(n, "queue")} that match:`, selectedMessages: (n) => `${plural(n, "message")} selected:`,
    title: (verb, n) => `${verb} ${plural(n, "queue")}?`, text: (verb, n) => `${verb} ${plural(n, "queue")}. This can be undone.`,
    purge: (n) => `Every message of ${plural(n, "queue")} is removed. This cannot be undone.`, done: (verb, n) => `${verb}: ${plural(n, "queue")}`, soFar: (n, total) => `${n} of ${total} so far`,
  },
  create: { title: "Create a queue", verb: "Create", fifo: "FIFO: keep the order of messages in a group", attemptsHint: "Empty: it may fail for ever.", deadHint: "Where dead messages go. Empty: they are discarded.", done: (name) => `${name} was created.` },
  send: {
    title: (queue) => `Send to ${queue}`, publishTitle: (name) => `Publish to ${name}`, verb: "Send", publish: "Publish", kind: "Body is", delay: "Delay in seconds", many: "How many", open: "Open",
    /** @type {Record<string, string>} */
    kinds: { text: "Text", json: "JSON", base64: "Bytes as base64" },
    /** @type {Record<string, string>} */
    types: { text: "text/plain; charset=utf-8", json: "application/json", base64: "application/octet-stream" },
    attributesHint: "One name=value on each line.", badAttribute: (line) => `“${line}” is not name=value.`,
    done: (n) => `${plural(n, "message")} sent and on disk.`, published: (n) => `Published to ${plural(n, "queue")}.`,
  },
  purge: {
    title: (queue) => `Purge ${queue}?`, text: (n) => `All messages are removed, whatever their state${n === "–" ? "" : `: ${n} now`}. This cannot be undone.`,
    soFar: (n) => `${n} removed so far`, done: (n, queue) => `${plural(n, "message")} of ${queue} removed.`,
  },
  deleteQueue: { title: (name) => `Delete ${name}?`, text: "The queue and all its messages are gone. The journal keeps what happened.", verb: "Delete queue", done: (name) => `${name} was deleted.` },
  operations: {
    title: (verb, queue) => `${verb}: ${queue}`, watching: (verb, queue) => `${verb}: ${queue}`, target: "To queue", targetHint: "Empty: each goes back to the queue it died in.",
    rate: "Messages a second", rateHint: "Empty: as fast as the server can.", cancel: "Stop", background: "Leave it running",
    /** @type {Record<string, string>} */
    text: { redrive: "Dead letters go back, with fresh attempts.", move: "Messages that nobody holds move to another queue.", remove: "The messages are removed. This cannot be undone.", resend: "A copy of each message is sent; the original stays.", replay: "Messages that were sent in this time are sent again, with their bodies from the journal and the archive." },
    /** @type {Record<string, string>} */
    states: { running: "Running.", done: "Done.", cancelled: "Stopped.", failed: "Failed." },
    soFar: (done, failed) => `${plural(done, "message")} done${failed ? `, ${failed} failed` : ""}.`,
    preview: (n, complete, looked, bodiless) => `${complete ? "" : "At least "}${plural(n, "message")} ${n === "1" ? "matches" : "match"}${complete ? "" : ` (looked at ${looked} so far)`}.${bodiless ? ` ${bodiless} of queues that keep no bodies are left out.` : ""}`,
  },
  curl: { button: "curl", title: (queue) => `${queue} from a shell`, text: "Put a token into COURIER_TOKEN first.", browse: "Browse" },
  /** @type {Record<string, string>} */
  queueTabs: { label: "Pages of this queue", "": "Now", messages: "Messages", dead: "Dead letters (DLQ)", receivers: "Receivers", settings: "Settings" },
  now: {
    lifecycle: "Life of a message", chart: "In, out and backlog", settings: "Settings", range: "Time range", delayed: "wait for their time", ready: "can be received", leased: "held by receivers", leasedOf: (n) => `of ${n} at most`, discarded: "discarded: no dead letter queue",
    /** @type {Record<string, string>} */
    ranges: { live: "15 min live", "1h": "1 h", "24h": "24 h" },
    chartLabel: (name) => `Messages sent, acked and dead each second, and the backlog, of ${name}`,
    back: (n) => `${n}/s came back`,
    share: (a, b, c) => `${a} delayed, ${b} ready, ${c} leased`,
  },
  diagnosis: { title: "Why is this queue stuck?", calm: "It is not", calmText: "Nothing was found that keeps messages from being received and acked.", apply: "Apply", done: "Applied." },
  receivers: {
    waiting: "Long polls waiting", holds: (n) => `${n} leased`, title: "Who receives", none: "Nobody has received lately", noneText: "Receivers appear here with their first receive.",
    leases: "Leases", leasesText: "visibility timeout, lock: a message is held by one receiver until its lease ends", noLeases: "No message is leased", holder: "Held by", since: "Since", ends: "Ends", noEnd: "A lease ends when its receiver acks or releases the message, or at its time: only the receipt can end it before.", last: "Last received",
    received: "Received/s", acked: "Acked/s", released: "Released/s", expired: "Expired/s", leased: "Leased", oldest: "Oldest lease", principal: "Principal", more: (n) => `${n} leases in all; the oldest are shown.`,
  },
  messages: {
    title: "Messages", find: "Find in body, id and attributes", attribute: "Attribute name:value", newest: "Newest first", none: "No messages", noneText: "Nothing waits here.", noMatch: "Nothing found so far", goOn: "Go on", panel: "Message",
    noLease: "Browsing leases nothing: receivers are not disturbed and attempts are not counted.", timeline: "Timeline", edit: "Edit and resend", tooLarge: "Bodies over 1 MiB are not edited here; Resend sends a copy.", tooLate: "It was received before; cancel works only before that.",
    shown: (n) => `${n} shown`, looked: (n, total) => `looked at ${n}${total ? ` of ${total}` : ""}`,
    removeTitle: "Remove this message?", removeText: (id) => `${id} is removed. This cannot be undone.`, removed: "Removed.", cancelTitle: "Cancel this message?", cancelText: (id) => `${id} is cancelled before anybody has received it.`,
  },
  body: {
    title: "Body", absent: "The body is not kept, or your credential lacks the scope browse.", hidden: "Hidden by policy", show: "Show", view: "View", more: "Show more", download: "Download", size: (text, n) => `${text} (${n} bytes)`,
    /** @type {Record<string, string>} */
    views: { tree: "Tree", text: "Text", hex: "Hex" },
    binary: (size) => `${size} of binary data`, part: (a, b) => `${a} of ${b} characters`, moreItems: (n) => `${n} more`,
    truncated: (size) => `The beginning of ${size}.`, load: (size) => `Load all ${size}`,
  },
  dead: {
    title: "Why messages died", none: "No dead letters", noneText: "Messages come here when their attempts are used up.", source: "Died in", reason: "Reason", number: "Messages", newest: "Newest", day: "Last 24 h", examples: "Examples", deleted: "a deleted queue", redriveAll: "Redrive all",
    text: "Each goes back to the queue it died in, with fresh attempts.", looked: (n, total) => `Grouped ${n} of ${total} messages.`, all: (n) => `${plural(n, "dead letter")}.`, show: "Show",
    hours: (n) => `${n} died in the last 24 hours`,
  },
  settings,
  settingValue: (name, value) => (value === null || value === undefined ? "–" : name.endsWith("_ms") ? duration(value) : String(value)),
  settingsPage: {
    title: "Settings", changed: "changed", save: "Save changes", saved: "Saved.", nothing: "Nothing changed", reset: "Discard changes", history: "History", noHistory: "No changes kept", undo: "Undo", undone: "Undone.", rename: "Name", danger: "Delete this queue", words: "In other words", json: "As JSON", defaultIs: (text) => `Default: ${text}`,
    historyText: (name, a, b) => `${name}: ${a} → ${b}`,
    unlimited: "no limit", on: "On", off: "Off",
    /** @type {Record<string, string>} */
    units: { 1: "ms", 1000: "s", 60000: "min", 3600000: "h", 86400000: "d" },
  },
  timeline: {
    title: "Message", life: "Its whole life", none: "Nothing was found", noneText: "The id may be wrong, or what happened is older than the journal.", more: "Look further back", looked: (n, from) => `Looked at ${n} events back to ${from}.`, complete: "Complete: nothing older can exist.",
    later: (text) => `${text} later`, waiting: "Waiting", delayed: "Delayed", leased: "Leased", dialects: "As each client sees it", dialectsText: "Written by the server's own APIs.", notLive: "The message is settled; only live messages can be shown as clients see them.", commands: "Commands", differs: "differs",
    /** @type {Record<string, string>} */
    roles: { queue: "queue", dead_letters: "dead letters (DLQ)", outbox: "listener (webhook)", listener_dead_letters: "dead letters of a listener" },
    /** @type {Record<string, string>} */
    dialectNames: { native: "Native", cloudflare: "Cloudflare", anypoint: "Anypoint", discue: "discue" },
    picture: "Timeline of the message", events: "Events", find: "Find a message by its id", settled: (kind) => `Last event: ${kind}`, live: "Now", notShown: "Not shown by this API.",
  },
  tail: {
    title: "Tail", text: "Everything as it happens, in the order of the journal.", hold: "Pause", go: "Go on", waiting: "Waiting for events…", clear: "Clear", copy: "Copy as JSON lines", queue: "Queue", principal: "Principal (id)", message: "Message id", rewind: "Rewind to", now: "Now", speed: "Speed", pin: "Pin", unpin: "Unpin", pinned: "Pinned",
    skipped: (n) => `${n ? `+${n}` : "Many"} more were skipped: the page cannot show more than 200 a second.`, showSkipped: "Show them", held: (n) => `${plural(n, "event")} waiting`, leftOut: (n) => `${plural(n, "event")} came while the tail was paused and ${n === "1" ? "is" : "are"} not kept: the page keeps the newest 2,000.`, playLeftOut: "Play from there", kept: (n) => `${plural(n, "event")} shown; the page keeps the newest 2,000.`, past: (text) => `Playing the past from ${text}`, trimmed: "That part of the journal is not kept any more.",
  },
  exchanges: {
    title: "Exchanges", text: "An exchange copies each message to the queues whose rules match (topic, fan-out).", none: "No exchanges yet", create: "Create exchange", bindings: "Bindings", noBindings: "No bindings: messages published here reach no queue.", bind: "Bind a queue", rules: "Rules", everything: "every message", unbind: "Unbind", publish: "Publish", tester: "Rule tester", testerText: "Type attributes and see which queues get the message. Nothing is sent.", test: "Test", matches: "gets it", refuses: (rule) => `refused by ${rule}`, deleteIt: "Delete", deleteTitle: (name) => `Delete ${name}?`, deleteText: "Bindings go with it; queues and messages stay.", json: "JSON body (for rules that look into it)", queue: "Queue", rulesHint: "JSON: a list of {\"attribute\", \"type\": \"string|numeric\", \"matcher\", \"value\"}. Empty: every message.", removed: "Removed.", done: "Saved.",
  },
  listeners: {
    title: "Listeners", common: "webhooks", text: "A listener is a URL that messages are delivered to (webhook, push subscription).", none: "No listeners yet", create: "Create listener", url: "URL", queue: "Queue", state: "State", waiting: "Waiting", delivered: "Delivered", failed: "Failed", success: "Success", outcomes: (a, b) => `${a} delivered, ${b} failed`, breaker: "Circuit breaker", lastSuccess: "Last success", lastFailure: "Last failure", attempts: "Attempts", noAttempts: "No attempts yet", verdict: "Verdict", status: "Status", latency: "Took", answer: "Answer", replayMissed: "Replay missed", replayText: "All that died is delivered again. What was sent while it was paused or disabled waits until it is resumed.", replayRange: "Replay a time range", replayed: (answer) => `Replayed ${plural(answer.count, "message")}.`, rotate: "Rotate secret", rotateText: "A new secret is made; the old one signs on for a day.", secret: "Secret", secretOnce: "Shown once: keep it where the receiver can read it.", test: "Send a test event", tested: "A test message was sent to its queue.", verify: "Verify in Python", reason: "Disabled because", curve: "Latency and failures", dead: "Dead letters", resumed: "Deliveries go on.", paused: "Deliveries wait.", name: "Name", deleteTitle: (name) => `Delete ${name}?`, deleteText: "Messages that wait for it are discarded.", deleteIt: "Delete", since: "From", until: "To",
    /** @type {Record<string, string>} */
    verdicts: { delivered: "Delivered", retry: "Will retry", dead: "Dead", gone: "Gone", unknown: "Unknown" },
    /** @type {Record<string, string>} */
    breakers: { closed: "closed (all is well)", open: "open (waits)", half_open: "half open (tries one)" },
  },
  map: { title: "Flow map", text: "Who sends, where messages go, who receives. Widths are rates; red is stuck.", none: "Nothing flows yet", senders: "Senders", exchanges: "Exchanges", queues: "Queues", receivers: "Receivers and listeners", dead: "Dead letters", picture: "Flow of messages", truncated: "Only the busiest are shown.", asList: "As a list", from: "From", to: "To", kind: "Kind", rate: "Rate",
    /** @type {Record<string, string>} */
    kinds: { binding: "binding", dead_letters: "dead letters", delivery: "delivers (webhook)", sends: "sends", receives: "receives" } },
  history: {
    title: "History", text: "Queues by the hour. Drag over hours to choose a range.", measure: "Measure", none: "Nothing happened in this time", range: "Time range", picture: "Heat map of queues by hour", chosen: (a, b) => `${a} to ${b}`, replay: "Replay this range", csv: "Export CSV", fresh: (text) => `Tables go up to ${text}; newer figures come from the journal.`, journalOnly: "There are no tables yet: figures come from the journal.", queues: "Queues in this range", clear: "Clear", note: "Ages and latencies come from the pipeline's tables.",
    /** @type {Record<string, string>} */
    measures: { backlog: "Backlog", sent: "Sent", acked: "Acked", dead_lettered: "Dead letters", oldest_age_ms: "Oldest age", latency_p95_ms: "Latency p95" },
    /** @type {Record<string, string>} */
    ranges: { 24: "24 h", 72: "3 days", 168: "7 days" },
  },
  credentials: {
    title: "Credentials", text: "A credential belongs to one tenant and may do what its scopes say. Secrets are kept as hashes.", none: "No credentials yet", create: "Create credential", everywhere: "all", nowhere: "–", expires: "Ends", never: "never", limit: "Requests/s", rotate: "Rotate", disable: "Disable", enable: "Enable", deleteIt: "Delete", enabled: "Enabled", disabled: "Disabled", scopes: "Scopes", scopesHint: "Nothing chosen: everything in the tenant.", queuesHint: "Queues, with commas; empty: all", secret: "Secret of the credential", secretOnce: "It is shown this once. These lines set up a client:", rotateText: "The old secret is refused at once.", deleteTitle: (name) => `Delete ${name}?`, deleteText: "Clients that use it are refused at once.", done: "Done.", expiryHint: "Empty: never", name: "Name", actions: "Actions",
  },
  server: {
    title: "Server", nodes: "Nodes", node: "Node", duties: "Duties", connections: "Connections", inHand: "In hand", thisNode: "this one", store: "Store", commits: "Commits/s", events: "Events/s", batch: "Events a commit", sync: "Sync p50 / p99", disk: "Disk", free: "Free", data: "Data", journal: "Journal", archive: "Archive", sealed: "Sealed until", segments: "Segments", noArchive: "Nothing sealed yet", lake: "Tables", noLake: "No tables: run courier pipeline run", until: "Up to", cursors: "Cursors", noCursors: "Nobody holds back the journal", behind: "Behind", settings: "Settings in force", source: "From", key: "Setting", value: "Value", started: "Started", rootOnly: "Only root sees this page.", streams: "Live streams",
  },
};
