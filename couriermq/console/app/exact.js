// JSON without loss: integers that a double cannot hold stay as they were written.

/**
 * The value of a JSON text; integers beyond 2^53 become BigInt.
 * @param {string} text
 * @returns {any}
 */
export function parse(text) {
  return /\d{16}/.test(text) ? JSON.parse(text, exactly) : JSON.parse(text);
}

/**
 * @param {string} _key
 * @param {any} value
 * @param {{source?: string}} [context]
 */
function exactly(_key, value, context) {
  const inexact = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
  return inexact && /^-?\d+$/.test(context?.source ?? "") ? BigInt(/** @type {string} */ (context?.source)) : value;
}

/**
 * The text of a value in which BigInt stands for large integers.
 * @param {any} value
 * @returns {string}
 */
export function write(value) {
  const raw = /** @type {any} */ (JSON).rawJSON;
  return JSON.stringify(value, (_key, item) => (typeof item === "bigint" ? raw(item.toString()) : item));
}

/** A number in a body, kept as its text. */
export class NumberText {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
}

/**
 * The value of a body for display, with every number as it was written; undefined where the text is not JSON or nested
 * too deep for a tree.
 * @param {string} text
 * @returns {any}
 */
export function parseBody(text) {
  try {
    return JSON.parse(text, keepNumber);
  } catch {
    return undefined;
  }
}

/**
 * @param {string} _key
 * @param {any} value
 * @param {{source?: string}} [context]
 */
function keepNumber(_key, value, context) {
  return typeof value === "number" ? new NumberText(context?.source ?? String(value)) : value;
}
