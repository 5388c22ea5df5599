// Lines over time: uPlot in our colours, with a table for those who cannot see it.
import { html, useEffect, useRef } from "../view.js";
import { clock, count } from "../format.js";
import { prefs } from "../store.js";
import { W } from "../words.js";

/** @typedef {{label: string, values: (number | null)[], mark: string, area?: boolean, axis?: "y" | "b"}} Series */

/** @param {string} name */
const colour = (name) => {
  // Resolved by the browser, because a canvas does not know light-dark().
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
};

/** @param {number[]} times in seconds @param {Series[]} series @param {number} width @param {number} height @param {((from: number, to: number) => void) | undefined} onBrush */
function optionsFor(times, series, width, height, onBrush) {
  const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  return {
    width, height, padding: [8, 6, 0, 0],
    cursor: { drag: { x: Boolean(onBrush), y: false, setScale: false }, points: { size: 6 } },
    legend: { show: false },
    scales: { x: { time: true }, y: { range: (/** @type {any} */ _u, /** @type {number} */ _lo, /** @type {number} */ hi) => [0, Math.max(1, hi * 1.1)] }, b: { range: (/** @type {any} */ _u, /** @type {number} */ _lo, /** @type {number} */ hi) => [0, Math.max(1, hi * 1.1)] } },
    axes: [{ ...axis, values: (/** @type {any} */ _u, /** @type {number[]} */ splits) => splits.map((at) => clock(at * 1000).slice(0, 8)), space: 80 }, { ...axis, size: 46 }, { ...axis, scale: "b", side: 1, size: 50, grid: { show: false } }],
    series: [{}, ...series.map((one) => ({ label: one.label, scale: one.axis ?? "y", stroke: colour(one.mark), width: one.area ? 1 : 1.6, fill: one.area ? colour("raise") : undefined, points: { show: false } }))],
    hooks: { setSelect: [(/** @type {any} */ u) => onBrush && u.select.width > 3 && onBrush(u.posToVal(u.select.left, "x") * 1000, u.posToVal(u.select.left + u.select.width, "x") * 1000)] },
  };
}

/**
 * @param {{label: string, times: number[], series: Series[], height?: number, onBrush?: (from: number, to: number) => void}} props
 */
export function Chart({ label, times, series, height = 230, onBrush }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const data = [times.map((at) => at / 1000), ...series.map((one) => one.values)];
  const newest = useRef(data);
  newest.current = data;
  const shape = series.map((one) => one.label).join() + prefs.theme.value + prefs.utc.value;
  useEffect(() => {
    let ended = false;
    const element = /** @type {HTMLDivElement} */ (box.current);
    const watch = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height }));
    import("../../vendor/uplot.js").then(({ default: UPlot }) => {
      if (ended) return;
      plot.current = new UPlot(optionsFor(times, series, element.clientWidth, height, onBrush), newest.current, element);
      watch.observe(element);
    });
    return () => (ended = true, watch.disconnect(), plot.current?.destroy(), (plot.current = null));
  }, [shape]);
  useEffect(() => plot.current?.setData(data), [times.length, times.at(-1), series]);
  return html`<div class="tight">
    <div class="legend">${series.map((one) => html`<span><svg width="14" height="8" aria-hidden="true"><rect width="14" height=${one.area ? 8 : 3} y=${one.area ? 0 : 3} rx="1.5" style=${{ fill: `var(--${one.mark})` }} /></svg>${one.label}</span>`)}</div>
    <div class="chart" ref=${box} role="img" aria-label=${label}></div>
    <details><summary class="hint">${W.asTable}</summary><div class="scroll" tabindex="0" role="region" aria-label=${label}><table class="plain">
      <thead><tr><th>${W.time}</th>${series.map((one) => html`<th class="num">${one.label}</th>`)}</tr></thead>
      <tbody>${times.map((at, i) => [at, i]).slice(-30).reverse().map(([at, i]) => html`<tr><td>${clock(at)}</td>${series.map((one) => html`<td class="num">${count(one.values[i])}</td>`)}</tr>`)}</tbody>
    </table></div></details>
  </div>`;
}
