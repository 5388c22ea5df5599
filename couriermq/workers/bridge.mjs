// The bridge between Courier and the queue() handler of a Worker.
//
// Courier posts a batch, the bridge calls queue() on the service binding TARGET, and the response is what the handler
// made of the batch. The Worker needs no change. In the configuration of the bridge (see docs/dialects/cloudflare-workers.md):
//
//   compatibility flag   service_binding_extra_handlers
//   service binding      TARGET: the Worker
//   text or secret       COURIER_SECRET: what `courier workers attach` printed; without it every caller is served
//
// The body of the request: 4 bytes (big endian) with the length of the head, the head as JSON, and the message bodies.

const MAX_AGE_SECONDS = 300;
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export default {
  async fetch(request, env) {
    if (request.method !== "POST") return refusal(405, "Courier posts batches to this address");
    const payload = new Uint8Array(await request.arrayBuffer());
    if (env.COURIER_SECRET && !(await isGenuine(env.COURIER_SECRET, request.headers, payload))) {
      return refusal(401, "the signature does not fit COURIER_SECRET");
    }
    const batch = readBatch(payload);
    if (batch === null) return refusal(400, "the body is not a batch of Courier");
    const { queue, messages, metadata } = batch;
    return Response.json(await env.TARGET.queue(queue, messages, metadata));
  },
};

function refusal(status, error) {
  return Response.json({ error }, { status });
}

function readBatch(payload) {
  if (payload.length < 4) return null;
  const start = 4 + new DataView(payload.buffer).getUint32(0);
  let head;
  try {
    head = JSON.parse(decoder.decode(payload.subarray(4, start)));
  } catch {
    return null;
  }
  const { queue, metadata } = head;
  let end = start;
  const messages = head.messages.map(({ id, timestamp, attempts, contentType, size }) => {
    const bytes = payload.slice(end, (end += size));
    return { id, timestamp: new Date(timestamp), attempts, ...readBody(contentType, bytes) };
  });
  const oldest = metadata.metrics.oldestMessageTimestamp;
  if (oldest !== undefined) metadata.metrics.oldestMessageTimestamp = new Date(oldest);
  return { queue, messages, metadata };
}

// The runtime deserializes v8 bodies itself. JSON that is none comes from a sender that called it so: it stays a string.
function readBody(contentType, bytes) {
  if (contentType === "v8") return { serializedBody: bytes };
  if (contentType === "bytes") return { body: bytes.buffer };
  const text = readText(bytes);
  if (contentType === "text") return { body: text };
  try {
    return { body: JSON.parse(text) };
  } catch {
    return { body: text };
  }
}

// A text may hold one half of a surrogate pair, as three bytes that TextDecoder would replace: they start with 0xED,
// which is never followed by 0xA0 or more in UTF-8.
function readText(bytes) {
  let text = "";
  let start = 0;
  for (let at = bytes.indexOf(0xed); at !== -1; at = bytes.indexOf(0xed, at + 1)) {
    if (!(bytes[at + 1] >= 0xa0) || at + 2 >= bytes.length) continue;
    const half = 0xd000 | ((bytes[at + 1] & 0x3f) << 6) | (bytes[at + 2] & 0x3f);
    text += decoder.decode(bytes.subarray(start, at)) + String.fromCharCode(half);
    start = at + 3;
  }
  return text + decoder.decode(bytes.subarray(start));
}

// Standard Webhooks with HMAC-SHA256: https://www.standardwebhooks.com
async function isGenuine(secret, headers, payload) {
  const id = headers.get("webhook-id");
  const timestamp = headers.get("webhook-timestamp");
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) <= MAX_AGE_SECONDS)) return false;
  const prefix = encoder.encode(`${id}.${timestamp}.`);
  const content = new Uint8Array(prefix.length + payload.length);
  content.set(prefix);
  content.set(payload, prefix.length);
  const hmac = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", fromBase64(secret.replace(/^whsec_/, "")), hmac, false, ["verify"]);
  for (const given of (headers.get("webhook-signature") ?? "").split(" ")) {
    if (given.startsWith("v1,") && (await crypto.subtle.verify("HMAC", key, fromBase64(given.slice(3)), content))) {
      return true;
    }
  }
  return false;
}

function fromBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
