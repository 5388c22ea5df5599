// Lines over time, drawn as SVG, with a table for those who cannot see them.
import { html, useLayoutEffect, useRef, useState } from "../view.js";
import { clock, count, rate, short } from "../format.js";
import { W } from "../words.js";

/** @typedef {{label: string, values: (number | null)[], mark: string, area?: boolean, axis?: "y" | "b"}} Series */

const LEFT = 44, RIGHT = 46, TOP = 8, BOTTOM = 22, TICKS = 4;

/** The largest value of an axis, rounded up to a number that divides well. @param {Series[]} series */
function topOf(series) {
  let top = 0;
  for (const one of series) for (const value of one.values) if (value !== null && value > top) top = value;
  const power = 10 ** Math.floor(Math.log10(top || 1));
  return power * ([1, 2, 4, 5, 8, 10].find((step) => step * power >= top) ?? 10);
}

/** A path through the values; a null leaves a gap. @param {Series} series @param {(i: number) => number} x @param {(value: number) => number} y */
function pathOf({ values, area }, x, y) {
  let path = "", pen = "M";
  values.forEach((value, i) => {
    if (value === null || value === undefined) return void (pen = "M");
    path += `${pen}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  });
  return area && path ? `${path}L${x(values.length - 1).toFixed(1)} ${y(0)}L${x(0).toFixed(1)} ${y(0)}Z` : path;
}

/**
 * @param {{label: string, times: number[], series: Series[], height?: number}} props
 */
export function Chart({ label, times, series, height = 230 }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [width, setWidth] = useState(640);
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const watch = new ResizeObserver(() => setWidth(Math.max(280, element.clientWidth)));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  const second = series.some((one) => one.axis === "b");
  const right = second ? RIGHT : 8;
  const first = times[0] ?? 0, span = Math.max(1, (times.at(-1) ?? 1) - first);
  const x = (i) => LEFT + ((times[i] - first) / span) * (width - LEFT - right);
  const tops = { y: topOf(series.filter((one) => one.axis !== "b")), b: topOf(series.filter((one) => one.axis === "b")) };
  const y = (axis) => (value) => TOP + (1 - value / tops[axis]) * (height - TOP - BOTTOM);
  const hover = (event) => {
    const place = ((event.clientX - event.currentTarget.getBoundingClientRect().left - LEFT) / (width - LEFT - right)) * span + first;
    let near = 0;
    times.forEach((time, i) => Math.abs(time - place) < Math.abs(times[near] - place) && (near = i));
    setAt(times.length ? near : null);
  };
  const number = Math.max(2, Math.floor(width / 130));
  const marks = Array.from({ length: number }, (_, i) => i / (number - 1));
  const ticks = Array.from({ length: TICKS + 1 }, (_, i) => i / TICKS);
  return html`<div class="tight">
    <div class="legend">${series.map((one) => html`<span><span class=${`swatch ${one.area ? "area" : ""}`} style=${{ background: `var(--${one.mark})` }}></span>${one.label}${at !== null && html` <b>${rate(one.values[at])}</b>`}</span>`)}${at !== null && html`<span>${clock(times[at])}</span>`}</div>
    <div class="chart" ref=${box}><svg width=${width} height=${height} role="img" aria-label=${label} onPointerMove=${hover} onPointerLeave=${() => setAt(null)}>
      ${ticks.map((tick) => html`<line class="grid" x1=${LEFT} x2=${width - right} y1=${y("y")(tick * tops.y)} y2=${y("y")(tick * tops.y)} /><text class="soft" x=${LEFT - 6} y=${y("y")(tick * tops.y) + 4} text-anchor="end">${short(tick * tops.y)}</text>
        ${second && html`<text class="soft" x=${width - right + 6} y=${y("y")(tick * tops.y) + 4}>${short(tick * tops.b)}</text>`}`)}
      ${times.length > 1 && marks.map((part) => html`<text class="soft" x=${LEFT + part * (width - LEFT - right)} y=${height - 5} text-anchor=${part === 0 ? "start" : part === 1 ? "end" : "middle"}>${clock(first + part * span).slice(0, 8)}</text>`)}
      ${series.map((one) => html`<path class=${one.area ? "area" : "line"} style=${one.area ? {} : { stroke: `var(--${one.mark})` }} d=${pathOf(one, x, y(one.axis ?? "y"))} />`)}
      ${at !== null && html`<line class="cursor" x1=${x(at)} x2=${x(at)} y1=${TOP} y2=${height - BOTTOM} />`}
    </svg></div>
    <details><summary class="hint">${W.asTable}</summary><div class="scroll" tabindex="0" role="region" aria-label=${label}><table class="plain">
      <thead><tr><th>${W.time}</th>${series.map((one) => html`<th class="num">${one.label}</th>`)}</tr></thead>
      <tbody>${times.map((time, i) => ({ time, i })).slice(-30).reverse().map(({ time, i }) => html`<tr><td>${clock(time)}</td>${series.map((one) => html`<td class="num">${count(one.values[i])}</td>`)}</tr>`)}</tbody>
    </table></div></details>
  </div>`;
}
