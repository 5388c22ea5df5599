// Making elements: everything on the page is built from text nodes, so nothing in a document can become markup.

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name in node && typeof value !== "string") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const INLINE = /(`[^`]+`|\*\*[^*]+\*\*|\[[^\]]+\]\([^)\s]+\))/;

function inline(text) {
  return text.split(INLINE).filter(Boolean).map((part) => {
    if (part.startsWith("`") && part.endsWith("`") && part.length > 2) return el("code", {}, part.slice(1, -1));
    if (part.startsWith("**") && part.endsWith("**") && part.length > 4) return el("strong", {}, part.slice(2, -2));
    const link = /^\[([^\]]+)\]\(((?:https?:|\/|#)[^)\s]*)\)$/.exec(part);
    return link ? el("a", { href: link[2] }, link[1]) : part;
  });
}

// The small part of Markdown that descriptions use: paragraphs, lists, code, bold, links, headings.
export function prose(text, className = "prose") {
  const blocks = (text ?? "").trim().split(/\n{2,}/).filter(Boolean);
  return el("div", { class: className }, blocks.map(block));
}

function block(text) {
  const lines = text.split("\n");
  const heading = /^#{1,6}\s+(.*)$/.exec(lines[0]);
  if (heading && lines.length === 1) return el("h4", {}, inline(heading[1]));
  if (lines.every((line) => /^\s*[-*]\s|^\s{2,}\S/.test(line))) {
    const items = text.split(/\n(?=\s*[-*]\s)/).map((item) => item.replace(/^\s*[-*]\s+/, "").replace(/\s*\n\s*/g, " "));
    return el("ul", {}, items.map((item) => el("li", {}, inline(item))));
  }
  return el("p", {}, inline(lines.join(" ")));
}

export function inlineProse(text) {
  return el("span", {}, inline((text ?? "").replace(/\s*\n\s*/g, " ")));
}

export function copyButton(text) {
  const button = el("button", { class: "quiet copy", type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text());
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  return button;
}

const TOKENS = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;

// JSON with its keys, strings, numbers and words in colours.
export function jsonView(text) {
  const code = el("code", { class: "json" });
  let last = 0;
  for (const match of text.matchAll(TOKENS)) {
    code.append(text.slice(last, match.index));
    const [, string, colon, word] = match;
    const kind = string ? (colon ? "key" : "string") : word ? "word" : "number";
    code.append(el("span", { class: kind }, string ?? match[0]));
    if (colon) code.append(colon);
    last = match.index + match[0].length;
  }
  code.append(text.slice(last));
  return code;
}
