// Links of the drawing: NICs to leaves, leaves to spines and those above, coloured by the axes that use them.
import { s } from "../dom.js";
import { figures, percent, plural, prefixed } from "../format.js";
import { AXES, colour } from "./axes.js";
import { part } from "./parts.js";

/** The height of a switch. */
export const BOX = 22;

const rate = (answer, link) => {
  const found = answer.links.find((one) => one.link === link);
  return found ? `${figures((8 * found.nominal) / 1e9)} Gb/s` : "";
};

/** What a link carries, a line for each axis. */
export function used(utilisation, most) {
  const lines = AXES.filter((axis) => utilisation[axis] > 0).map(
    (axis) => `${axis}  ${prefixed(utilisation[axis] * most, "B")} a step, ${percent(utilisation[axis])} busy`,
  );
  return lines.length ? lines : ["carries nothing"];
}

/** A line for each axis beside the others; wide and strong where it is busy. */
function strands([x1, y1], [x2, y2], utilisation) {
  const axes = AXES.filter((axis) => utilisation[axis] > 0.001);
  const width = (axis) => 0.7 + 3.3 * Math.min(utilisation[axis], 1);
  let shift = -axes.reduce((sum, axis) => sum + width(axis), 0) / 2;
  return axes.map((axis) => {
    const middle = shift + width(axis) / 2;
    shift += width(axis);
    return s("line", {
      class: `strand ${axis}`,
      x1: x1 + middle,
      y1,
      x2: x2 + middle,
      y2,
      "stroke-width": width(axis),
      "stroke-opacity": 0.3 + 0.7 * Math.sqrt(Math.min(utilisation[axis], 1)),
      style: { stroke: colour(axis) },
    });
  });
}

function linkShapes(from, to, utilisation, dead) {
  const [x1, y1] = from,
    [x2, y2] = to;
  return [
    s("line", { class: "hit", x1, y1, x2, y2 }),
    s("line", { class: "base", x1, y1, x2, y2 }),
    ...(dead ? [] : strands(from, to, utilisation)),
  ];
}

/** Cables between a leaf and a spine. */
export function cable(link, graph, at, answer) {
  const leaf = graph.leaves.find(({ number }) => number === link.leaf);
  const from = [at.leaves.get(link.leaf), at.y.leaf - BOX / 2],
    to = [at.spines.get(link.spine), at.y.spine + BOX / 2];
  const name = `leaf ${link.leaf} to spine ${link.spine}`;
  const bundle = `${plural(link.cables, "cable")} of ${rate(answer, "leaf-spine")}`;
  const state = link.failed ? `1 of ${link.cables} cables broken` : link.dead ? "its switch is down" : bundle;
  const where = [(from[0] * 3 + to[0]) / 4, (from[1] * 3 + to[1]) / 4];
  return part(
    {
      id: link.id,
      label: `${name}, ${state}`,
      tip: [
        name,
        state,
        ...used(leaf.utilisation, graph.most_bytes),
        link.failed ? "click or Enter mends it" : "click or Enter breaks one cable",
      ].join("\n"),
      failed: link.failed,
      dead: link.dead || (link.failed && link.cables === 1),
      where,
    },
    ...linkShapes(from, to, leaf.utilisation, link.dead),
  );
}

function nicPlace(nic, node, size) {
  const index = node.nics.indexOf(nic);
  return [size.nodes.get(node.number) + (index - (node.nics.length - 1) / 2) * size.nic, size.y.node];
}

/** A NIC and its link to a leaf. */
export function wire(nic, node, graph, size, answer) {
  const [x, y] = nicPlace(nic, node, size);
  const leaf = graph.leaves.find(({ number }) => number === nic.leaf);
  const name = `NIC ${nic.number} of node ${node.number}`;
  const to = leaf && size.leaves.has(nic.leaf) ? [size.leaves.get(nic.leaf), size.y.leaf + BOX / 2] : null;
  const state = nic.failed ? "broken" : nic.dead ? "cut off" : rate(answer, "nic");
  return part(
    {
      id: nic.id,
      label: `${name}, on leaf ${nic.leaf}, ${state}`,
      tip: [
        `${name} → leaf ${nic.leaf}${leaf?.rail ? ` (rail ${leaf.rail})` : ""}`,
        state,
        ...(nic.dead ? [] : used(node.utilisation, graph.most_bytes)),
        nic.failed ? "click or Enter mends it" : "click or Enter breaks it",
      ].join("\n"),
      failed: nic.failed,
      dead: nic.dead,
      where: [x, y],
    },
    ...(to ? linkShapes([x, y - 3], to, node.utilisation, nic.dead) : []),
    s("circle", { cx: x, cy: y, r: Math.min(4, size.nic / 2.3) }),
  );
}

/** Cables from spines to cores, which cannot be broken one by one. */
export function trunks(graph, at, answer) {
  const busy = answer.links.find(({ link }) => link === "spine-core")?.total ?? 0;
  const lost = (spine, core) =>
    graph.spines.find(({ number }) => number === spine).failed ||
    graph.cores.find(({ number }) => number === core).failed;
  return graph.trunks.map(({ spine, core }) =>
    s("line", {
      class: `trunk${lost(spine, core) ? " lost" : ""}`,
      x1: at.spines.get(spine),
      y1: at.y.spine - BOX / 2,
      x2: at.cores.get(core),
      y2: at.y.core + BOX / 2,
      "stroke-width": 0.7 + 3 * Math.min(busy, 1),
    }),
  );
}

/** Links between routers of a dragonfly. */
export function arcs(graph, at, answer) {
  if (!graph.dragonfly) return [];
  const y = at.y.leaf - BOX / 2;
  const busy = Math.max(
    0,
    ...answer.links.filter(({ link }) => link === "local" || link === "global").map(({ total }) => total),
  );
  return graph.leaves.flatMap((one, index) =>
    graph.leaves.slice(index + 1).map((other) => {
      const a = at.leaves.get(one.number),
        b = at.leaves.get(other.number);
      const rise = 10 + 0.06 * (b - a);
      return s("path", {
        class: "trunk",
        d: `M${a} ${y}C${a} ${y - rise} ${b} ${y - rise} ${b} ${y}`,
        "stroke-width": 0.7 + 3 * Math.min(busy, 1),
      });
    }),
  );
}
