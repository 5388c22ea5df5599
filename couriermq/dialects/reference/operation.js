// One operation: what it does, what goes in, what comes out, how to call it with curl, and a form to call it here.

import { copyButton, el, inlineProse, jsonView, prose } from "./dom.js";
import { exampleOf, resolve, schemaView, typeName } from "./schema.js";

export function operationView(document, operation) {
  const card = el("details", { class: "operation", id: operation.anchor },
    el("summary", {},
      el("span", { class: `method ${operation.method}` }, operation.method.toUpperCase()),
      el("code", { class: "path" }, pathParts(operation.path)),
      el("span", { class: "summary" }, operation.summary ?? "")));
  card.addEventListener("toggle", () => {
    if (card.open && card.children.length === 1) card.append(body(document, operation));
  });
  return card;
}

const pathParts = (path) => path.split(/({[^}]+})/).filter(Boolean)
  .map((part) => (part.startsWith("{") ? el("i", {}, part) : part));

function body(document, operation) {
  const form = tryForm(document, operation);
  return el("div", { class: "body" },
    el("div", { class: "told" },
      operation.description ? prose(operation.description) : null,
      parametersView(document, operation),
      requestView(document, operation),
      responsesView(document, operation)),
    el("div", { class: "tried" }, form));
}

// -- what is told ---------------------------------------------------------------------------------------------

function parametersView(document, operation) {
  if (!operation.parameters.length) return null;
  const rows = operation.parameters.map((parameter) => el("div", { class: "property" },
    el("dt", {},
      el("code", { class: "name" }, parameter.name),
      el("span", { class: "type" }, typeName(document, parameter.schema)),
      el("span", { class: "place" }, parameter.in),
      parameter.required ? el("span", { class: "required" }, "required") : null),
    el("dd", {}, inlineProse(parameter.description ?? ""),
      parameter.schema?.default !== undefined
        ? el("span", { class: "bound" }, `default ${JSON.stringify(parameter.schema.default)}`) : null)));
  return el("section", {}, el("h4", {}, "Parameters"), el("dl", { class: "properties" }, rows));
}

function requestView(document, operation) {
  const content = requestContent(document, operation);
  if (!content) return null;
  return el("section", {},
    el("h4", {}, "Request body", el("small", {}, content.media, content.required ? "" : ", optional")),
    schemaView(document, content.schema));
}

function responsesView(document, operation) {
  const views = Object.entries(operation.responses ?? {}).map(([status, reference]) => {
    const response = resolve(document, reference);
    const contents = Object.entries(response.content ?? {});
    const summary = el("summary", {},
      el("span", { class: `status s${status[0]}` }, status),
      inlineProse(response.description ?? ""));
    if (!contents.length) return el("div", { class: "response" }, summary.firstChild, summary.lastChild);
    const details = el("details", { class: "response", open: status.startsWith("2") }, summary);
    for (const [media, { schema }] of contents) {
      details.append(el("p", { class: "media" }, media), schemaView(document, schema));
    }
    return details;
  });
  return el("section", {}, el("h4", {}, "Responses"), views);
}

function requestContent(document, operation) {
  const request = resolve(document, operation.requestBody);
  const [media, content] = Object.entries(request.content ?? {})[0] ?? [];
  return media ? { media, required: request.required, ...content } : null;
}

// -- what is tried --------------------------------------------------------------------------------------------

function tryForm(document, operation) {
  const content = requestContent(document, operation);
  const inputs = operation.parameters.map((parameter) => [parameter, parameterInput(document, parameter)]);
  const text = content ? el("textarea", { rows: "6", spellcheck: "false", "aria-label": "Request body" }) : null;
  if (text) text.value = startingBody(document, content);
  const curl = el("pre", { class: "curl" });
  const answer = el("div", { class: "answer", "aria-live": "polite" });
  const ask = () => requestOf(operation, inputs, content, text);
  const redraw = () => curl.replaceChildren(curlOf(ask()));
  const form = el("form", { autocomplete: "off" },
    el("div", { class: "code" }, el("div", { class: "head" }, "curl", copyButton(() => curlOf(ask()))), curl),
    inputs.length || text ? el("fieldset", {},
      inputs.map(([parameter, input]) => el("label", {}, el("span", {}, parameter.name), input)),
      text ? el("label", { class: "wide" }, el("span", {}, "body"), text) : null) : null,
    el("button", { class: "send", type: "submit" }, "Send"),
    answer);
  form.addEventListener("input", redraw);
  window.addEventListener("token", redraw);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(ask(), answer, form.querySelector(".send"));
  });
  redraw();
  return form;
}

function parameterInput(document, parameter) {
  const schema = resolve(document, parameter.schema);
  const choices = schema.enum ?? schema.items?.enum;
  if (choices) {
    return el("select", {}, parameter.required ? null : el("option", { value: "" }, ""),
      choices.map((value) => el("option", { value: String(value) }, String(value))));
  }
  const input = el("input", { type: "text", spellcheck: "false", placeholder: parameter.in === "path" ? parameter.name : "" });
  if (parameter.in === "path" && STARTING[parameter.name]) input.value = STARTING[parameter.name];
  return input;
}

// A new server has one tenant, and it is called so in every dialect.
const STARTING = {
  tenant: "default", account_id: "default", organization: "default", environment: "default", region: "us-east-1",
  queue: "orders", queue_id: "orders", destination: "orders",
};

function startingBody(document, content) {
  const example = content.example ?? Object.values(content.examples ?? {})[0]?.value ?? exampleOf(document, content.schema);
  return typeof example === "string" && !/json/.test(content.media) ? example : JSON.stringify(example, null, 2);
}

function requestOf(operation, inputs, content, text) {
  let path = operation.path;
  const query = new URLSearchParams();
  const headers = { ...authorization(operation) };
  for (const [parameter, input] of inputs) {
    const value = input.value.trim();
    if (parameter.in === "path") path = path.replaceAll(`{${parameter.name}}`, value ? encodeURIComponent(value) : `{${parameter.name}}`);
    else if (!value) continue;
    else if (parameter.in === "query") query.append(parameter.name, value);
    else if (parameter.in === "header") headers[parameter.name] = value;
  }
  const body = text && text.value.trim() ? text.value : undefined;
  if (body !== undefined) headers["Content-Type"] = content.media;
  const search = query.toString();
  return { method: operation.method.toUpperCase(), path: operation.base + path + (search ? `?${search}` : ""), headers, body };
}

function authorization(operation) {
  const wanted = operation.securitySchemes;
  if (!wanted.length) return {};
  const token = window.document.getElementById("token").value.trim();
  const key = wanted.some((scheme) => scheme.type !== "apiKey") ? null : wanted.find((scheme) => scheme.in === "header");
  if (key) return { [key.name]: token || "$COURIER_TOKEN" };
  return { Authorization: `Bearer ${token || "$COURIER_TOKEN"}` };
}

function curlOf({ method, path, headers, body }) {
  const address = `"${location.origin}${path}"`;
  const lines = method === "GET" ? [`curl ${address}`] : [`curl -X ${method}`, address];
  for (const [name, value] of Object.entries(headers)) {
    const shown = /^(authorization|x-.*key)$/i.test(name) ? value.replace(/[^\s$]+$/, (secret) => masked(secret)) : value;
    lines.push(`-H "${name}: ${shown}"`);
  }
  if (body !== undefined) lines.push(`-d '${body.replaceAll("'", "'\\''")}'`);
  return lines.join(" \\\n  ");
}

// The secret stays in its field: what is on the screen, or copied, names the variable instead.
const masked = (secret) => (secret.endsWith("COURIER_TOKEN") ? secret : "$COURIER_TOKEN");

async function send({ method, path, headers, body }, answer, button) {
  button.disabled = true;
  answer.replaceChildren(el("p", { class: "waiting" }, "Waiting for the answer …"));
  const started = performance.now();
  try {
    const response = await fetch(path, { method, headers, body });
    answer.replaceChildren(...(await responseView(response, performance.now() - started)));
  } catch (error) {
    answer.replaceChildren(el("p", { class: "failed" }, `No answer: ${error.message}`));
  } finally {
    button.disabled = false;
  }
}

async function responseView(response, tookMs) {
  const media = response.headers.get("content-type") ?? "";
  const head = el("div", { class: "head" },
    el("span", { class: `status s${String(response.status)[0]}` }, String(response.status)),
    el("span", {}, response.statusText), el("span", { class: "took" }, `${tookMs.toFixed(0)} ms`));
  if (/arrow|octet-stream/.test(media)) {
    const size = (await response.arrayBuffer()).byteLength;
    return [head, el("p", { class: "waiting" }, `${size} bytes of ${media}`)];
  }
  const text = await response.text();
  if (!text) return [head];
  return [head, el("pre", {}, /json/.test(media) ? jsonView(pretty(text)) : el("code", {}, text))];
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
