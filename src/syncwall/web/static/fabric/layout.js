// Where the parts of a drawing stand: nodes side by side, switches above the nodes that they serve.

/** Room at the left for the names of rows. */
const LEFT = 112;
const WIDEST = 1080;
const NARROWEST = 520;
const GAP = 16; // for dots, where nodes are left out
const BETWEEN = 10; // between units
const MOST = 112; // of one node

/** Places of all parts of `graph`: {width, height, y, nodes, leaves, spines, cores, dots}. */
export function placed(graph) {
  const rows = ["core", "spine", "leaf", "node"].filter(
    (kind) => graph.counts[kind] && (kind !== "core" || graph.cores.length),
  );
  const y = {};
  let at = 34;
  for (const kind of rows) {
    y[kind] = at;
    at += { core: 92, spine: 132, leaf: 118, node: 0 }[kind];
  }
  if (graph.dragonfly) for (const kind of ["leaf", "node"]) y[kind] += 40;
  const width = Math.max(NARROWEST, Math.min(WIDEST, LEFT + graph.nodes.length * MOST + 60));
  const { nodes, dots, pitch } = nodePlaces(graph, width);
  const spans = unitSpans(graph, nodes, pitch);
  const leaves = leafPlaces(graph, spans, width);
  const spines = spinePlaces(graph, spans, width);
  const cores = spread(graph.cores, LEFT, width - 12);
  return { width, height: y.node + 92, y, nodes, leaves, spines, cores, dots, pitch, spans };
}

function nodePlaces(graph, width) {
  const gaps = graph.nodes.map((node, index) => {
    const before = graph.nodes[index - 1];
    if (!before) return 0;
    return (node.number > before.number + 1 ? GAP : 0) + (node.unit !== before.unit ? BETWEEN : 0);
  });
  const room = width - LEFT - gaps.reduce((sum, gap) => sum + gap, 0) - 8;
  const last = graph.nodes.at(-1);
  const pitch = Math.min(MOST, room / Math.max(graph.nodes.length, 1));
  let x = LEFT + Math.max(0, (room - pitch * graph.nodes.length) / 2);
  const nodes = new Map();
  const dots = [];
  graph.nodes.forEach((node, index) => {
    const left = graph.nodes[index - 1];
    if (left && node.number > left.number + 1)
      dots.push({ x: x + gaps[index] / 2, left: node.number - left.number - 1 });
    x += gaps[index];
    nodes.set(node.number, x + pitch / 2);
    x += pitch;
  });
  if (last && last.number < graph.counts.node) dots.push({ x: x + 4, left: graph.counts.node - last.number });
  return { nodes, dots, pitch };
}

/** Left and right end of every unit. */
function unitSpans(graph, nodes, pitch) {
  const spans = new Map();
  for (const node of graph.nodes) {
    const x = nodes.get(node.number);
    const [left, right] = spans.get(node.unit) ?? [Infinity, -Infinity];
    spans.set(node.unit, [Math.min(left, x - pitch / 2 + 2), Math.max(right, x + pitch / 2 - 2)]);
  }
  return spans;
}

function leafPlaces(graph, spans, width) {
  const units = Map.groupBy(graph.leaves, (leaf) => leaf.unit);
  const places = [...units].flatMap(([unit, leaves]) => {
    let [left, right] = spans.get(unit) ?? [LEFT, width];
    if (spans.size === 1) [left, right] = [Math.min(left, LEFT + 8), Math.max(right, width - 8)];
    return [...spread(leaves, left, right)];
  });
  return new Map(places);
}

function spinePlaces(graph, spans, width) {
  const pods = Map.groupBy(graph.spines, (spine) => spine.pod);
  const places = [...pods].flatMap(([pod, spines]) => {
    const below = graph.leaves.filter((leaf) => leaf.pod === pod).map((leaf) => spans.get(leaf.unit) ?? [LEFT, width]);
    const [left, right] =
      pods.size === 1 || !below.length
        ? [LEFT, width - 8]
        : [Math.min(...below.map(([x]) => x)), Math.max(...below.map(([, x]) => x))];
    return [...spread(spines, left, right)];
  });
  return new Map(places);
}

/** The width of boxes that stand at `places`. */
export function boxWidth(places) {
  const xs = [...places.values()].sort((a, b) => a - b);
  return xs.slice(1).reduce((least, x, index) => Math.min(least, x - xs[index] - 2), 24);
}

/** Where parts stand by their numbers, evenly from `left` to `right`. */
function spread(parts, left, right) {
  const step = (right - left) / Math.max(parts.length, 1);
  return new Map(parts.map(({ number }, index) => [number, left + step * (index + 0.5)]));
}
