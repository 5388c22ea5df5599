// The native API with the session's cookie.
import { parse, write } from "./exact.js";
import { SERVER, tenant } from "./router.js";
import { who, trouble, setServerTime } from "./store.js";
import { W } from "./words.js";

/** What the server refused, in its own words. */
export class Problem extends Error {
  /** @param {number} status @param {any} answer */
  constructor(status, answer) {
    super(answer?.detail ?? answer?.title ?? answer?.error ?? W.problem.status(status));
    this.status = status;
    this.type = String(answer?.type ?? "").replace("urn:courier:problem:", "");
    this.field = answer?.field ?? "";
  }
}

/**
 * @typedef {Object} Options
 * @property {Record<string, any>} [query] a list gives its name several times; "" and null are left out
 * @property {any} [body]
 * @property {AbortSignal} [signal]
 * @property {Record<string, string>} [headers]
 */

/**
 * Ask the server; raises Problem.
 * @param {string} method
 * @param {string} path below the server's root, such as "courier/v1/whoami"
 * @param {Options} [options]
 * @returns {Promise<any>}
 */
export async function ask(method, path, { query, body, signal, headers } = {}) {
  /** @type {Record<string, string>} */
  const sent = { accept: "application/json", ...headers };
  if (method !== "GET") sent["courier-console"] = "1";
  if (body !== undefined) sent["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(SERVER + path + search(query), {
      method, headers: sent, signal, credentials: "same-origin", body: body === undefined ? undefined : write(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    trouble.value = W.trouble.unreachable;
    throw new Problem(0, { detail: W.trouble.unreachable });
  }
  trouble.value = "";
  const date = Date.parse(response.headers.get("date") ?? "");
  if (date && Math.abs(date - Date.now()) > 5000) setServerTime(date);
  return answerOf(response);
}

/** The answer; raises Problem. @param {Response} response */
export async function answerOf(response) {
  const text = await response.text();
  let answer = null;
  try {
    answer = text ? parse(text) : null;
  } catch {
    if (response.ok) throw new Problem(response.status, { detail: W.problem.unreadable });
  }
  if (response.ok) return answer;
  const problem = new Problem(response.status, answer);
  if (response.status === 401 && who.value) who.value = null;
  throw problem;
}

/** @param {Record<string, any> | undefined} given */
function search(given) {
  const list = new URLSearchParams();
  for (const [name, value] of Object.entries(given ?? {}))
    for (const one of Array.isArray(value) ? value : [value])
      if (one !== undefined && one !== null && one !== "") list.append(name, String(one));
  const text = list.toString();
  return text ? `?${text}` : "";
}

const V1 = "courier/v1/";

/** @param {string[]} path */
const encoded = (path) => path.map(encodeURIComponent).join("/");

/** A path below the chosen tenant. @param {string[]} path */
export const T = (...path) => `${V1}tenants/${encoded([tenant.value, ...path])}`;
/** A path below a queue. @param {string} queue @param {string[]} path */
export const Q = (queue, ...path) => T("queues", queue, ...path);
/** A path of the native API that belongs to no tenant. @param {string[]} path */
export const V = (...path) => V1 + encoded(path);

/** @param {string} path @param {Record<string, any>} [query] @param {AbortSignal} [signal] */
export const get = (path, query, signal) => ask("GET", path, { query, signal });
/** @param {string} path @param {any} [body] */
export const post = (path, body) => ask("POST", path, { body });
/** @param {string} path @param {any} body */
export const patch = (path, body) => ask("PATCH", path, { body });
/** @param {string} path @param {any} body */
export const put = (path, body) => ask("PUT", path, { body });
/** @param {string} path */
export const remove = (path) => ask("DELETE", path);

/** The URL of the API for a curl command. @param {string} path */
export const address = (path) => window.location.origin + SERVER + path;
