// A program that uses the official TypeScript SDK against the server at COURIER_URL and prints what it saw.
import Cloudflare from "cloudflare";

const client = new Cloudflare({
  baseURL: `${process.env.COURIER_URL}/client/v4`,
  apiToken: process.env.COURIER_TOKEN,
});
const account_id = "default";
const seen = {};

const queue = await client.queues.create({ account_id, queue_name: "typescript" });
const id = queue.queue_id;
await client.queues.consumers.create(id, {
  account_id,
  type: "http_pull",
  dead_letter_queue: "typescript-dead",
  settings: { max_retries: 1 },
});

const { messages } = client.queues;
seen.pushed = await messages.push(id, { account_id, body: { order: 1 }, content_type: "json" });
seen.bulk = await messages.bulkPush(id, {
  account_id,
  messages: [
    { body: "grüße", content_type: "text" },
    { body: { order: 3 }, content_type: "json" },
  ],
});
seen.peeked = await messages.peek(id, { account_id, batch_size: 1 });
seen.pulled = await messages.pull(id, { account_id, batch_size: 10, visibility_timeout_ms: 60000 });

const [first, second, third] = seen.pulled.messages.map((message) => ({ lease_id: message.lease_id }));
seen.settled = await messages.ack(id, { account_id, acks: [first, third], retries: [second] });
seen.again = await messages.pull(id, { account_id });
await messages.ack(id, { account_id, retries: seen.again.messages.map(({ lease_id }) => ({ lease_id })) });
seen.metrics = await client.queues.getMetrics(id, { account_id });
seen.names = [];
for await (const found of client.queues.list({ account_id })) seen.names.push(found.queue_name);

const cut = "😀".slice(0, 1);
await messages.push(id, { account_id, body: { cut }, content_type: "json" });
await messages.push(id, { account_id, body: cut, content_type: "text" });
const halves = (await messages.pull(id, { account_id })).messages.map((message) => message.body);
seen.halves = JSON.parse(halves[0]).cut === cut && halves[1] === cut;

seen.verified = (await client.user.tokens.verify()).status;
seen.accounts = [];
for await (const found of client.accounts.list()) seen.accounts.push(found.name);

const failure = async (promise) => {
  try {
    await promise;
    return null;
  } catch (error) {
    return { name: error.constructor.name, status: error.status, codes: error.errors?.map((problem) => problem.code) };
  }
};
seen.failures = {
  missing: await failure(client.queues.get("none", { account_id })),
  taken: await failure(client.queues.create({ account_id, queue_name: "typescript" })),
  text: await failure(messages.push(id, { account_id, body: "text", content_type: "json" })),
  unauthorized: await failure(client.withOptions({ apiToken: "wrong" }).queues.list({ account_id })),
};
console.log(JSON.stringify(seen));
