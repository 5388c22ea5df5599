// A Worker that produces into its queue binding, as it would in production; the path says what to do.
const CALLS = {
  "/json": (queue) => queue.send({ order: 1 }),
  "/text": (queue) => queue.send("grüße", { contentType: "text" }),
  "/bytes": (queue) => queue.send(new Uint8Array([0, 255, 16]), { contentType: "bytes" }),
  "/v8": (queue) => queue.send(new Map([["a", 1]]), { contentType: "v8" }),
  "/delayed": (queue) => queue.send({ late: true }, { delaySeconds: 3600 }),
  "/batch": (queue) =>
    queue.sendBatch(
      [
        { body: { n: 1 } },
        { body: "two", contentType: "text", delaySeconds: 0 },
      ],
      { delaySeconds: 3600 },
    ),
  "/large": (queue) => queue.send("x".repeat(128001), { contentType: "text" }),
  "/metrics": (queue) => queue.metrics(),
};

export default {
  async fetch(request, env) {
    try {
      return Response.json((await CALLS[new URL(request.url).pathname](env.ORDERS)) ?? null);
    } catch (error) {
      return Response.json({ error: error.message }, { status: 500 });
    }
  },
};
