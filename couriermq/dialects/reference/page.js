// The page: one dialect at a time, its operations in groups, its schemas, and a way to find things.

import { el, prose } from "./dom.js";
import { operationView } from "./operation.js";
import { resolve, schemaView } from "./schema.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const byId = (id) => document.getElementById(id);
const documents = new Map();
let listed = [];
let shown = null;

// -- reading --------------------------------------------------------------------------------------------------

async function read(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
  return response.json();
}

async function documentOf(dialect) {
  if (!documents.has(dialect)) documents.set(dialect, await read(listed.find((entry) => entry.dialect === dialect).url));
  return documents.get(dialect);
}

function operationsOf(api, dialect) {
  const base = (api.servers?.[0]?.url ?? "").replace(/\/$/, "");
  return Object.entries(api.paths ?? {}).flatMap(([path, item]) =>
    Object.keys(item).filter((key) => METHODS.includes(key)).map((method) => {
      const operation = item[method];
      const own = (operation.parameters ?? []).map((parameter) => resolve(api, parameter));
      const inherited = (item.parameters ?? []).map((parameter) => resolve(api, parameter));
      const names = new Set(own.map((parameter) => parameter.in + parameter.name));
      return {
        ...operation, method, path,
        base: base.startsWith("http") ? "" : base,
        anchor: `${dialect}/${operation.operationId ?? `${method}${path}`}`,
        tag: operation.tags?.[0] ?? "Operations",
        parameters: [...inherited.filter((parameter) => !names.has(parameter.in + parameter.name)), ...own],
        securitySchemes: schemesOf(api, operation),
      };
    }));
}

function schemesOf(api, operation) {
  const wanted = operation.security ?? api.security ?? [];
  const known = api.components?.securitySchemes ?? {};
  return wanted.flatMap((choice) => Object.keys(choice)).map((name) => known[name]).filter(Boolean);
}

function groupsOf(api, operations) {
  const groups = new Map((api.tags ?? []).map((tag) => [tag.name, { ...tag, operations: [] }]));
  for (const operation of operations) {
    if (!groups.has(operation.tag)) groups.set(operation.tag, { name: operation.tag, operations: [] });
    groups.get(operation.tag).operations.push(operation);
  }
  return [...groups.values()].filter((group) => group.operations.length);
}

// -- drawing --------------------------------------------------------------------------------------------------

function draw(api, dialect) {
  const groups = groupsOf(api, operationsOf(api, dialect));
  document.title = `${api.info.title} · Courier API reference`;
  byId("main").replaceChildren(intro(api, dialect), ...groups.map((group) => groupView(api, dialect, group)), schemasView(api, dialect));
  byId("contents").replaceChildren(...groups.map((group) => contentsOf(dialect, group)), schemasLink(dialect));
  for (const tab of byId("dialects").children) tab.setAttribute("aria-current", String(tab.dataset.dialect === dialect));
  shown = dialect;
  filter();
}

function intro(api, dialect) {
  const { url } = listed.find((entry) => entry.dialect === dialect);
  return el("section", { class: "intro" },
    el("h1", {}, api.info.title, el("span", { class: "version" }, api.info.version)),
    api.info.summary ? el("p", { class: "lead" }, api.info.summary) : null,
    prose(api.info.description),
    el("p", { class: "source" }, el("a", { href: url, download: `${dialect}.json` }, "OpenAPI document"), ` · OpenAPI ${api.openapi}`));
}

function groupView(api, dialect, group) {
  return el("section", { class: "group", id: `${dialect}/tag/${group.name}` },
    el("h2", {}, group.name), group.description ? prose(group.description) : null,
    group.operations.map((operation) => operationView(api, operation)));
}

function contentsOf(dialect, group) {
  return el("section", {},
    el("h3", {}, el("a", { href: `#${dialect}/tag/${group.name}` }, group.name)),
    group.operations.map((operation) => el("a", { class: "entry", href: `#${operation.anchor}`, "data-text": `${operation.summary} ${operation.path} ${operation.operationId} ${operation.method}`.toLowerCase() },
      el("span", { class: `method ${operation.method}` }, operation.method === "delete" ? "DEL" : operation.method.toUpperCase()),
      el("span", {}, operation.summary ?? operation.path))));
}

function schemasLink(dialect) {
  return el("section", {}, el("h3", {}, el("a", { href: `#${dialect}/schemas` }, "Schemas")));
}

function schemasView(api, dialect) {
  const schemas = Object.entries(api.components?.schemas ?? {});
  if (!schemas.length) return "";
  return el("section", { class: "group", id: `${dialect}/schemas` }, el("h2", {}, "Schemas"),
    schemas.map(([name, schema]) => {
      const card = el("details", { class: "struct" }, el("summary", {}, el("code", {}, name), el("span", { class: "summary" }, schema.description ?? "")));
      card.addEventListener("toggle", () => {
        if (card.children.length === 1) card.append(schemaView(api, schema, [name]));
      });
      return card;
    }));
}

// -- moving about ---------------------------------------------------------------------------------------------

async function go() {
  const anchor = decodeURIComponent(location.hash.slice(1));
  const dialect = listed.find((entry) => anchor.split("/")[0] === entry.dialect)?.dialect ?? listed[0].dialect;
  if (dialect !== shown) draw(await documentOf(dialect), dialect);
  const target = anchor ? document.getElementById(anchor) : null;
  if (target?.matches("details")) target.open = true;
  for (const entry of document.querySelectorAll(".entry")) {
    entry.setAttribute("aria-current", String(entry.getAttribute("href") === `#${anchor}`));
  }
  if (target) target.scrollIntoView();
  else window.scrollTo(0, 0);
  showSide(false);
}

function filter() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const section of byId("contents").children) {
    const entries = [...section.querySelectorAll(".entry")];
    for (const entry of entries) entry.hidden = !words.every((word) => entry.dataset.text.includes(word));
    section.hidden = words.length > 0 && entries.every((entry) => entry.hidden);
  }
}

function showSide(open) {
  byId("side").classList.toggle("open", open);
  byId("menu").setAttribute("aria-expanded", String(open));
}

const THEMES = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" };

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = THEMES[theme];
  localStorage.setItem("courier.theme", theme);
}

function nextTheme() {
  const names = Object.keys(THEMES);
  setTheme(names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length]);
}

function keepToken() {
  const token = byId("token");
  token.value = sessionStorage.getItem("courier.token") ?? "";
  token.addEventListener("input", () => {
    sessionStorage.setItem("courier.token", token.value);
    window.dispatchEvent(new Event("token"));
  });
}

async function start() {
  setTheme(THEMES[localStorage.getItem("courier.theme")] ? localStorage.getItem("courier.theme") : "auto");
  keepToken();
  byId("theme").addEventListener("click", nextTheme);
  byId("menu").addEventListener("click", () => showSide(!byId("side").classList.contains("open")));
  byId("search").addEventListener("input", filter);
  listed = (await read("openapi")).documents;
  byId("dialects").replaceChildren(...listed.map(({ dialect, title }) => el("a", { href: `#${dialect}`, "data-dialect": dialect }, title.replace(/^Courier: /, ""))));
  window.addEventListener("hashchange", go);
  await go();
}

start().catch((error) => byId("main").replaceChildren(el("p", { class: "loading" }, `The documents cannot be read: ${error.message}`)));
