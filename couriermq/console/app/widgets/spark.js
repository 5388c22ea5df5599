// A line of the last hour in the size of a word.
import { html } from "../view.js";
import { W } from "../words.js";
import { short } from "../format.js";

const WIDTH = 96, HEIGHT = 22;

/** @param {number[]} values @param {number} top @param {boolean} [area] */
function line(values, top, area) {
  const step = WIDTH / Math.max(1, values.length - 1);
  const points = values.map((value, i) => `${(i * step).toFixed(1)} ${(HEIGHT - 1 - (value / top) * (HEIGHT - 3)).toFixed(1)}`);
  return area ? `M0 ${HEIGHT}L${points.join("L")}L${WIDTH} ${HEIGHT}Z` : `M${points.join("L")}`;
}

/** @param {{spark: {sent: number[], acked: number[], backlog?: number[]} | undefined}} props */
export function Spark({ spark }) {
  if (!spark) return null;
  const top = Math.max(1, ...spark.sent, ...spark.acked);
  const high = Math.max(1, ...(spark.backlog ?? []));
  const sum = (list) => short(list.reduce((a, b) => a + b, 0));
  return html`<svg class="spark" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${W.sparkLabel(sum(spark.sent), sum(spark.acked))}>
    ${spark.backlog && html`<path class="backlog" d=${line(spark.backlog, high, true)} />`}
    <path class="sent" d=${line(spark.sent, top)} /><path class="acked" d=${line(spark.acked, top)} />
  </svg>`;
}
