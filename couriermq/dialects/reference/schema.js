// Reading JSON Schema: a type in a few words, a table of properties, and an example to start from.

import { el, inlineProse } from "./dom.js";

export function resolve(document, schema) {
  let seen = schema ?? {};
  for (let depth = 0; seen.$ref && depth < 20; depth += 1) {
    const found = seen.$ref.slice(2).split("/").reduce((node, key) => node?.[unescapeKey(key)], document);
    seen = found ?? {};
  }
  return seen;
}

const unescapeKey = (key) => decodeURIComponent(key).replaceAll("~1", "/").replaceAll("~0", "~");
const refName = (schema) => schema?.$ref?.split("/").pop();

export function typeName(document, schema) {
  if (!schema || typeof schema !== "object") return "any";
  if (schema.$ref) return refName(schema);
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices && !choices.every((choice) => choice.required)) {
    return [...new Set(choices.map((choice) => typeName(document, choice)))].join(" or ");
  }
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.type === "array") return `array of ${typeName(document, schema.items)}`;
  if (schema.type === "object" && typeof schema.additionalProperties === "object" && !schema.properties) {
    return `map of ${typeName(document, schema.additionalProperties)}`;
  }
  if (Array.isArray(schema.type)) return schema.type.join(" or ");
  if (schema.allOf) return schema.allOf.map((part) => typeName(document, part)).join(" & ");
  if (schema.format === "binary") return "bytes";
  return schema.type ?? (schema.properties ? "object" : "any");
}

// What a value must keep to, such as "0 … 86400000" or "up to 128 characters".
function bounds(schema) {
  const said = [];
  for (const part of [schema, ...(schema.anyOf ?? [])]) {
    const [low, high] = [part.minimum, part.maximum].map((bound) => (Math.abs(bound) > Number.MAX_SAFE_INTEGER ? undefined : bound));
    if (low !== undefined && high !== undefined) said.push(`${low} … ${high}`);
    else if (low !== undefined) said.push(`≥ ${low}`);
    else if (high !== undefined) said.push(`≤ ${high}`);
    if (part.exclusiveMinimum !== undefined) said.push(`> ${part.exclusiveMinimum}`);
    if (part.maxLength !== undefined) said.push(`up to ${part.maxLength} characters`);
    if (part.maxItems !== undefined) said.push(`${part.minItems ?? 0} … ${part.maxItems} items`);
    if (part.pattern) said.push(part.pattern);
  }
  return said;
}

function structs(document, schema, found = new Map()) {
  if (!schema || typeof schema !== "object") return found;
  if (schema.$ref) {
    const target = resolve(document, schema);
    if (isStruct(target) || target.enum) found.set(refName(schema), target);
    return found;
  }
  for (const part of [schema.items, schema.additionalProperties, ...(schema.oneOf ?? []), ...(schema.anyOf ?? []), ...(schema.allOf ?? [])]) {
    structs(document, part, found);
  }
  return found;
}

const isStruct = (schema) => Boolean(schema.properties || schema.oneOf || schema.allOf || schema.anyOf);

export function schemaView(document, schema, path = []) {
  const target = resolve(document, schema);
  const view = el("div", { class: "schema" });
  const choices = (target.oneOf ?? target.anyOf ?? []).filter((choice) => !choice.required);
  if (target.allOf) view.append(...target.allOf.map((part) => schemaView(document, part, path)));
  if (target.properties) view.append(properties(document, target, path));
  else if (choices.length) view.append(...choices.map((choice, index) => choiceView(document, choice, index, path)));
  else if (!target.allOf) view.append(plain(document, target, path));
  return view;
}

function choiceView(document, choice, index, path) {
  const name = typeName(document, choice);
  return el("div", { class: "choice" },
    el("p", { class: "either" }, index ? "or " : "either ", el("b", {}, name)),
    path.includes(name) ? null : schemaView(document, choice, [...path, name]));
}

function plain(document, schema, path) {
  const inner = [...structs(document, schema).entries()].filter(([name]) => !path.includes(name));
  return el("div", {}, el("p", { class: "plain" }, el("span", { class: "type" }, typeName(document, schema))),
    inner.map(([name, target]) => nested(document, name, target, path)));
}

function properties(document, schema, path) {
  const required = new Set(schema.required ?? []);
  const oneOf = new Set(schema["x-one-of"] ?? (schema.oneOf ?? []).flatMap((choice) => choice.required ?? []));
  const rows = Object.entries(schema.properties).map(([name, value]) =>
    property(document, name, value, { required: required.has(name), oneOf: oneOf.has(name), path }));
  return el("dl", { class: "properties" }, rows);
}

function property(document, name, value, { required, oneOf, path }) {
  const target = resolve(document, value);
  const inner = [...structs(document, value).entries()].filter(([struct]) => !path.includes(struct));
  const fallback = value.default;
  return el("div", { class: "property" },
    el("dt", {},
      el("code", { class: "name" }, name),
      el("span", { class: "type" }, typeName(document, value)),
      required ? el("span", { class: "required" }, "required") : null,
      oneOf ? el("span", { class: "required" }, "one of these") : null),
    el("dd", {},
      inlineProse(value.description ?? (value.$ref ? target.description : "")),
      bounds(target).map((bound) => el("span", { class: "bound" }, bound)),
      fallback !== undefined && fallback !== null && JSON.stringify(fallback) !== "{}"
        ? el("span", { class: "bound" }, `default ${JSON.stringify(fallback)}`) : null,
      inner.map(([struct, schema]) => nested(document, struct, schema, path))));
}

// A struct inside a struct, opened only when somebody looks: schemas may be deep, and may be circles.
function nested(document, name, schema, path) {
  if (schema.enum) return el("p", { class: "values" }, schema.enum.map((value) => el("code", {}, String(value))));
  const details = el("details", { class: "nested" }, el("summary", {}, name));
  details.addEventListener("toggle", () => {
    if (details.children.length === 1) details.append(schemaView(document, schema, [...path, name]));
  });
  return details;
}

export function exampleOf(document, schema, depth = 0) {
  const target = resolve(document, schema);
  if (target.example !== undefined) return target.example;
  if (target.examples?.length) return target.examples[0];
  if (target.default !== undefined) return target.default;
  if (target.const !== undefined) return target.const;
  if (target.enum) return target.enum[0];
  if (depth > 4) return null;
  const choices = (target.oneOf ?? target.anyOf ?? []).filter((choice) => !choice.required);
  if (target.allOf) return Object.assign({}, ...target.allOf.map((part) => exampleOf(document, part, depth + 1)));
  if (choices.length && !target.properties) return exampleOf(document, choices[0], depth + 1);
  if (target.properties) {
    const wanted = target.required?.length ? target.required : Object.keys(target.properties).slice(0, 3);
    return Object.fromEntries(wanted.map((name) => [name, exampleOf(document, target.properties[name], depth + 1)]));
  }
  const kind = Array.isArray(target.type) ? target.type[0] : target.type;
  return { string: "text", integer: 0, number: 0, boolean: true, array: [], object: {} }[kind] ?? null;
}
