// A Worker as it is deployed: it consumes queues and knows nothing of Courier. It records what its handler saw and
// does with each message what the body says; `fetch` shows the record.
const seen = [];

export default {
  async queue(batch) {
    seen.push({
      queue: batch.queue,
      backlog: batch.metadata?.metrics?.backlogCount,
      messages: batch.messages.map(({ id, timestamp, attempts, body }) => ({
        id,
        timestamp: timestamp.toISOString(),
        attempts,
        ...show(body),
      })),
    });
    for (const message of batch.messages) {
      if (message.body?.do === "ack") message.ack();
      if (message.body?.do === "retry") message.retry({ delaySeconds: message.body.delaySeconds });
      if (message.body?.do === "wait") await new Promise((resolve) => setTimeout(resolve, message.body.ms));
    }
    if (batch.messages.some(({ body }) => body?.do === "retryAll")) batch.retryAll({ delaySeconds: 3600 });
    if (batch.messages.some(({ body }) => body?.do === "throw")) throw new Error("the handler failed");
  },

  fetch() {
    return Response.json(seen);
  },
};

function show(body) {
  const kind = Object.prototype.toString.call(body).slice(8, -1);
  if (body instanceof ArrayBuffer) return { kind, body: [...new Uint8Array(body)] };
  if (body instanceof Map) return { kind, body: [...body] };
  return { kind, body: body instanceof Date ? body.toISOString() : body };
}
