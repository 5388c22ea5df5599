// A layout in columns: what has neighbours stands near them.

const WIDTH = 168, HEIGHT = 46, GAP_X = 96, GAP_Y = 14, TOP = 36;
const NAMES = ["senders", "exchanges", "queues", "receivers", "dead"];

/** @typedef {{node: any, x: number, y: number, width: number, height: number, stuck: boolean}} Box */

/**
 * @param {any[]} nodes @param {any[]} edges
 * @returns {{boxes: Box[], lines: any[], width: number, height: number, columns: {name: string, x: number}[]}}
 */
export function layout(nodes, edges) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const columns = columnsOf(nodes, edges);
  sort(columns, edges);
  const used = columns.map((column, i) => ({ column, name: NAMES[i] })).filter(({ column }) => column.length);
  const rows = Math.max(...used.map(({ column }) => column.length));
  const height = TOP + rows * (HEIGHT + GAP_Y) + 8;
  /** @type {Map<string, Box>} */
  const boxes = new Map();
  used.forEach(({ column }, i) => {
    const start = TOP + ((rows - column.length) * (HEIGHT + GAP_Y)) / 2;
    column.forEach((key, j) => boxes.set(key, { node: byId.get(key.replace(/^>/, "")), x: 12 + i * (WIDTH + GAP_X), y: start + j * (HEIGHT + GAP_Y), width: WIDTH, height: HEIGHT, stuck: edges.some((edge) => edge.stuck && edge.to === key) }));
  });
  const top = Math.max(1, ...edges.map((edge) => edge.per_second ?? 0));
  const lines = edges.map((edge) => lineOf(edge, boxes.get(edge.from), boxes.get(targetOf(edge)), top)).filter(Boolean);
  return { boxes: [...boxes.values()], lines, width: 24 + used.length * WIDTH + (used.length - 1) * GAP_X, height, columns: used.map(({ name }, i) => ({ name, x: 12 + i * (WIDTH + GAP_X) })) };
}

/** A principal that sends and receives stands on both sides. @param {any} edge */
const targetOf = (edge) => (edge.kind === "receives" ? `>${edge.to}` : edge.to);

/** @param {any[]} nodes @param {any[]} edges @returns {string[][]} */
function columnsOf(nodes, edges) {
  const dead = new Set(edges.filter((edge) => edge.kind === "dead_letters").map((edge) => edge.to));
  /** @type {string[][]} */
  const columns = [[], [], [], [], []];
  for (const node of nodes) {
    if (node.kind === "exchange") columns[1].push(node.id);
    else if (node.kind === "queue") columns[dead.has(node.id) ? 4 : 2].push(node.id);
    else if (node.kind === "listener") columns[3].push(node.id);
    else {
      if (edges.some((edge) => edge.from === node.id)) columns[0].push(node.id);
      if (edges.some((edge) => edge.to === node.id)) columns[3].push(`>${node.id}`);
    }
  }
  return columns;
}

/** Order each column by the mean place of its neighbours, twice. @param {string[][]} columns @param {any[]} edges */
function sort(columns, edges) {
  for (let round = 0; round < 2; round += 1)
    for (const column of columns) {
      const place = new Map(columns.flatMap((one) => one.map((id, i) => /** @type {[string, number]} */ ([id, i / Math.max(1, one.length)]))));
      const mean = (id) => {
        const near = edges.flatMap((edge) => (targetOf(edge) === id ? [edge.from] : edge.from === id ? [targetOf(edge)] : [])).map((one) => place.get(one) ?? 0);
        return near.length ? near.reduce((a, b) => a + b, 0) / near.length : (place.get(id) ?? 0);
      };
      const means = new Map(column.map((id) => [id, mean(id)]));
      column.sort((a, b) => (means.get(a) ?? 0) - (means.get(b) ?? 0));
    }
}

/** @param {any} edge @param {Box | undefined} from @param {Box | undefined} to @param {number} top */
function lineOf(edge, from, to, top) {
  if (!from || !to) return null;
  const x1 = from.x + from.width, y1 = from.y + from.height / 2, x2 = to.x, y2 = to.y + to.height / 2;
  const bend = Math.max(36, Math.abs(x2 - x1) / 2);
  return { edge, d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`, width: 1.5 + 10 * Math.sqrt((edge.per_second ?? 0) / top), x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 4 };
}
