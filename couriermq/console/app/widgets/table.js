// A table that draws only the rows in sight, so that ten thousand cost as much as thirty.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../view.js";
import { go } from "../router.js";
import { isOpen } from "./dialog.js";
import { prefs } from "../store.js";
import { W } from "../words.js";

const ROW = 37, SPARE = 8;

/**
 * @typedef {Object} Column
 * @property {string} key
 * @property {any} label
 * @property {string} width of a grid column
 * @property {boolean} [num]
 * @property {boolean} [sort] whether the server can sort by it
 * @property {(row: any) => any} cell
 */

/**
 * @param {{label: string, columns: Column[], rows: any[], total?: number, keyOf: (row: any) => string, sort?: string, order?: string,
 *   onSort?: (key: string) => void, href?: (row: any) => string, onOpen?: (row: any) => void, selected?: Set<string>, onSelect?: (key: string) => void,
 *   here?: string, onEnd?: () => void, onShow?: (first: number) => void, whole?: boolean}} props
 */
export function Table({ label, columns, rows, total, keyOf, sort, order, onSort, href, onOpen, selected, onSelect, here, onEnd, onShow, whole }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [range, setRange] = useState({ top: 0, height: 900 });
  const [cursor, setCursor] = useState(-1);
  const look = () => {
    const element = box.current;
    if (!element) return;
    // On small screens the page scrolls, not the table.
    const inner = element.scrollHeight > element.clientHeight + 1;
    const top = inner ? element.scrollTop : Math.max(0, -element.getBoundingClientRect().top);
    setRange({ top: Math.floor(top / ROW) * ROW, height: inner ? element.clientHeight : window.innerHeight });
  };
  useLayoutEffect(look, [rows.length]);
  useEffect(() => {
    window.addEventListener("scroll", look, { passive: true });
    window.addEventListener("resize", look);
    return () => (window.removeEventListener("scroll", look), window.removeEventListener("resize", look));
  }, []);
  const first = whole ? 0 : Math.max(0, Math.floor(range.top / ROW) - SPARE);
  const last = whole ? rows.length : Math.min(rows.length, Math.ceil((range.top + range.height) / ROW) + SPARE);
  useEffect(() => {
    if (last >= rows.length && rows.length) onEnd?.();
  }, [last, rows.length]);
  useEffect(() => onShow?.(first), [first]);
  useEffect(() => {
    const press = (event) => {
      const target = /** @type {HTMLElement} */ (event.target);
      if (!prefs.keys.value || isOpen() || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
      if (event.key === "j" || event.key === "k") {
        const next = Math.max(0, Math.min(rows.length - 1, cursor + (event.key === "j" ? 1 : -1)));
        setCursor(next);
        const element = box.current;
        if (element && (next * ROW < element.scrollTop || (next + 2) * ROW > element.scrollTop + element.clientHeight)) element.scrollTop = Math.max(0, (next - 3) * ROW);
      } else if (event.key === "Enter" && rows[cursor] && !target.closest("a, button")) (onOpen ? onOpen(rows[cursor]) : href && go(href(rows[cursor])));
      else if (event.key === "x" && rows[cursor] && onSelect) onSelect(keyOf(rows[cursor]));
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  });
  // All rows have the same floor, so that the columns of each stand below each other.
  const floor = columns.reduce((sum, column) => sum + Number(/\d+/.exec(column.width)?.[0] ?? 0) + 12, onSelect ? 68 : 32);
  const grid = { gridTemplateColumns: `${onSelect ? "24px " : ""}${columns.map((column) => column.width).join(" ")}` };
  return html`<div class=${`scroll ${whole ? "whole" : ""}`} ref=${box} onScroll=${look} tabindex="0" role="region" aria-label=${label}>
    <div class="table" role="table" style=${{ minWidth: `${floor}px` }} aria-label=${label} aria-rowcount=${(total ?? rows.length) + 1}>
      <div role="rowgroup"><div class="tr th" role="row" style=${grid}>
        ${onSelect && html`<span role="columnheader"><span class="out">${W.selected}</span></span>`}
        ${columns.map((column) => html`<span role="columnheader" class=${column.num ? "num" : ""} aria-sort=${sort === column.key ? (order === "desc" ? "descending" : "ascending") : undefined}>
          ${column.sort && onSort ? html`<button type="button" onClick=${() => onSort(column.key)}>${column.label}${sort === column.key ? (order === "desc" ? " ↓" : " ↑") : ""}</button>` : column.label}
        </span>`)}
      </div></div>
      <div role="rowgroup" style=${{ paddingTop: `${first * ROW}px`, paddingBottom: `${(rows.length - last) * ROW}px` }}>
        ${rows.slice(first, last).map((row, i) => {
          const key = keyOf(row);
          return html`<div key=${key} class=${`tr td ${cursor === first + i || here === key ? "here" : ""}`} role="row" aria-rowindex=${first + i + 2}
              aria-selected=${selected ? selected.has(key) : undefined} style=${grid} onClick=${onOpen && (() => onOpen(row))}>
            ${onSelect && html`<span role="cell"><input type="checkbox" aria-label=${W.select(key)} checked=${selected?.has(key)} onClick=${(e) => e.stopPropagation()} onChange=${() => onSelect(key)} /></span>`}
            ${columns.map((column) => html`<span role="cell" class=${column.num ? "num" : ""}>${column.cell(row)}</span>`)}
          </div>`;
        })}
      </div>
    </div>
  </div>`;
}
