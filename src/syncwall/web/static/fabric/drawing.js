// The drawing: spines above leaves above nodes, links coloured by the axes that use them.
import { s } from "../dom.js";
import { counted, percent, plural } from "../format.js";
import { AXES, colour } from "./axes.js";
import { arcs, BOX, cable, trunks, used, wire } from "./cables.js";
import { boxWidth, placed } from "./layout.js";
import { part } from "./parts.js";

/** The fabric of `answer` as an SVG. */
export function drawing(answer) {
  const { graph } = answer;
  const at = placed(graph);
  const size = { ...at, nic: Math.min((at.pitch - 10) / Math.max(graph.nodes[0].nics.length, 1), 12) };
  const shapes = [
    ...units(graph, at),
    ...rowNames(answer, at),
    ...arcs(graph, at, answer),
    ...trunks(graph, at, answer),
    ...graph.links.map((link) => cable(link, graph, at, answer)),
    ...graph.nodes.flatMap((node) => node.nics.map((nic) => wire(nic, node, graph, size, answer))),
    ...graph.cores.map((core) =>
      box(core, at.cores, at.y.core, `core ${core.number}`, [`core ${core.number} of ${counted(graph.counts.core)}`]),
    ),
    ...graph.spines.map((spine) =>
      box(spine, at.spines, at.y.spine, `spine ${spine.number}`, [
        `spine ${spine.number} of ${counted(graph.counts.spine)}`,
      ]),
    ),
    ...graph.leaves.map((leaf) => leafBox(leaf, graph, at)),
    ...graph.nodes.map((node) => nodeBox(node, graph, size)),
    ...domains(answer, size),
    ...[
      ["cores", "core"],
      ["spines", "spine"],
      ["leaves", "leaf"],
    ].flatMap(([row, kind]) => gaps(graph[row], at[row], at.y[kind])),
    ...at.dots.map(({ x, left }) =>
      s(
        "text",
        { class: "dots", x, y: at.y.node + 24, "text-anchor": "middle" },
        "…",
        s("title", {}, `${counted(left)} nodes are not drawn`),
      ),
    ),
  ];
  return s(
    "svg",
    {
      viewBox: `0 0 ${at.width} ${at.height}`,
      style: { "min-width": `${0.8 * at.width}px`, "max-width": `${1.1 * at.width}px` },
      role: "group",
      "aria-label": "The fabric. Arrow keys move between parts, Enter breaks or mends one.",
    },
    shapes,
  );
}

function box(one, places, y, label, lines) {
  const x = places.get(one.number),
    width = boxWidth(places);
  const action = one.failed ? "click or Enter mends it" : "click or Enter breaks it";
  return part(
    {
      id: one.id,
      label: `${label}${one.failed ? ", broken" : ""}`,
      tip: [...lines, one.failed ? "broken" : "in order", action].join("\n"),
      failed: one.failed,
      where: [x, y],
    },
    s("rect", { x: x - width / 2, y: y - BOX / 2, width, height: BOX, rx: Math.min(4, width / 4) }),
    width > 7 * String(one.number).length &&
      s("text", { x, y: y + 4, "text-anchor": "middle", "aria-hidden": "true" }, String(one.number)),
  );
}

function leafBox(leaf, graph, at) {
  const kind = graph.dragonfly ? "router" : "leaf";
  const name = `${kind} ${leaf.number}${leaf.rail ? ` (rail ${leaf.rail})` : ""}`;
  const up = leaf.up ? `${leaf.up_left} of ${leaf.up} cables up` : "";
  const lines = [
    name,
    `${leaf.ends} NICs below${up ? `, ${up}` : ""}`,
    ...(leaf.up ? used(leaf.utilisation, graph.most_bytes).map((line) => `${line}, each cable up`) : []),
  ];
  return box(leaf, at.leaves, at.y.leaf, `${name}${up ? `, ${up}` : ""}`, lines);
}

function nodeBox(node, graph, size) {
  const x = size.nodes.get(node.number),
    y = size.y.node,
    width = size.pitch - 6;
  const gpus = Math.min(graph.gpus_per_node, 8);
  const step = Math.min((width - 6) / gpus, 12);
  const squares = Array.from({ length: gpus }, (_, index) =>
    s("rect", {
      class: "gpu",
      x: x + (index - (gpus - 1) / 2) * step - step * 0.36,
      y: y + 12,
      width: step * 0.72,
      height: step * 0.72,
      rx: 1,
    }),
  );
  const nics = `${node.working} of ${graph.nics_per_node} NICs`;
  return part(
    {
      id: node.id,
      label: `node ${node.number}, ${graph.gpus_per_node} GPUs, ${nics}${node.failed ? ", down" : ""}`,
      tip: [
        `node ${node.number} of ${counted(graph.counts.node)}`,
        `${graph.gpus_per_node} GPUs, ${nics} in order`,
        node.failed ? "down: click or Enter mends it" : "click or Enter takes it down",
      ].join("\n"),
      failed: node.failed,
      where: [x, y + 24],
    },
    s("rect", { class: "case", x: x - width / 2, y: y + 6, width, height: 38, rx: 4 }),
    squares,
    s("text", { x, y: y + 58, "text-anchor": "middle", "aria-hidden": "true" }, String(node.number)),
  );
}

/** The scale-up domain of each node as a bar, filled as far as it is busy. */
function domains(answer, size) {
  const load = answer.links.find(({ link }) => link === "scale-up");
  if (!load) return [];
  return [...Map.groupBy(answer.graph.nodes, (node) => node.domain).values()].flatMap((nodes) => {
    const left = size.nodes.get(nodes[0].number) - size.pitch / 2 + 7,
      right = size.nodes.get(nodes.at(-1).number) + size.pitch / 2 - 7;
    const y = size.y.node + 33;
    let x = left;
    return [
      s("rect", { class: "domain", x: left, y, width: right - left, height: 6, rx: 2 }),
      ...AXES.filter((axis) => load.utilisation[axis] > 0).map((axis) => {
        const width = Math.min((right - left) * load.utilisation[axis], right - x);
        const shape = s("rect", {
          class: `strand ${axis}`,
          x,
          y,
          width: Math.max(width, 0),
          height: 6,
          rx: 1,
          style: { fill: colour(axis) },
        });
        x += width;
        return shape;
      }),
    ];
  });
}

/** Dots where switches are left out. */
function gaps(ones, places, y) {
  return ones.slice(1).flatMap((one, index) => {
    const before = ones[index];
    if (one.number === before.number + 1) return [];
    return [
      s(
        "text",
        {
          class: "dots",
          x: (places.get(before.number) + places.get(one.number)) / 2,
          y: y + 4,
          "text-anchor": "middle",
          "aria-hidden": "true",
        },
        "…",
      ),
    ];
  });
}

function units(graph, at) {
  if (at.spans.size < 2) return [];
  const names = { leaf: "leaf", unit: "scalable unit", group: "group" };
  return [...at.spans].flatMap(([unit, [left, right]]) =>
    [
      s("rect", {
        class: "unit",
        x: left - 3,
        y: at.y.leaf - 26,
        width: right - left + 6,
        height: at.y.node - at.y.leaf + 96,
        rx: 8,
      }),
      right - left > 60 &&
        s(
          "text",
          { x: (left + right) / 2, y: at.y.node + 84, "text-anchor": "middle" },
          `${names[graph.unit]} ${unit + 1}: ${plural(graph.units[unit], "node")}`,
        ),
    ].filter(Boolean),
  );
}

function rowNames(answer, at) {
  const { graph, links } = answer;
  const load = (link) => {
    const found = links.find((one) => one.link === link);
    return !found ? "" : found.total > 0 ? `${percent(found.total, found.total < 0.1 ? 1 : 0)} busy` : "idle";
  };
  const said = (y, strong, ...quiet) => [
    s("text", { class: "strong", x: 8, y }, strong),
    ...quiet.filter(Boolean).map((line, index) => s("text", { x: 8, y: y + 16 * (index + 1) }, line)),
  ];
  return [
    ...(at.y.core !== undefined
      ? [
          ...said(at.y.core + 4, plural(graph.counts.core, "core")),
          ...said((at.y.core + at.y.spine) / 2 - 16, "", "spine–core", load("spine-core")),
        ]
      : []),
    ...(at.y.spine !== undefined
      ? [
          ...said(at.y.spine + 4, plural(graph.counts.spine, "spine")),
          ...said((at.y.spine + at.y.leaf) / 2 - 16, "", "leaf–spine", load("leaf-spine")),
        ]
      : []),
    ...(graph.dragonfly ? said(at.y.leaf - 44, "", "between routers", load("global") || load("local")) : []),
    ...said(
      at.y.leaf + 4,
      graph.dragonfly ? plural(graph.counts.leaf, "router") : plural(graph.counts.leaf, "leaf", "leaves"),
    ),
    ...said((at.y.leaf + at.y.node) / 2 - 16, "", "NICs", load("nic")),
    ...said(at.y.node + 20, plural(graph.counts.node, "node"), "scale-up", load("scale-up")),
  ];
}

/** Show one axis, or all. */
export function highlight(place, axis) {
  place.dataset.axis = axis ?? "";
}
