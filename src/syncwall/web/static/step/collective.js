// An all-reduce step by step: workers in a ring or a tree, each with its chunks.
import { ABOVE, chart, decades, TOLD } from "../chart.js";
import { h, put, quiet, s } from "../dom.js";
import { counted, duration, percent, plural, prefixed } from "../format.js";
import { table, wide, words } from "../table.js";
import { sceneOf, set } from "./scene.js";

/** The film of one algorithm of `answer`. */
export function collectiveFilm(answer, width, way) {
  const drawn = answer[way];
  const each = drawn.step_s ?? 1;
  const picture = way === "ring" ? ringPicture(answer, drawn, width) : treePicture(answer, drawn, width);
  const half = drawn.events.find(({ phase }) => phase === 2)?.at_s ?? 0;
  const second = way === "ring" ? "All-gather: sums go round" : "Down: sums to all";
  const about = (from, to) =>
    drawn.seconds === null
      ? `steps ${from + 1} to ${to}`
      : `steps ${from + 1} to ${to}, ${duration((to - from) * each)}`;
  const middle = Math.round(half / each);
  return {
    scene: picture.element,
    from: 0,
    to: drawn.steps * each,
    events: drawn.events,
    verdict: answer.verdict,
    show(t) {
      picture.at(t / each);
    },
    clock: drawn.seconds === null ? (t) => `step ${Math.min(Math.floor(t) + 1, drawn.steps)} of ${drawn.steps}` : null,
    phases: [
      [1, way === "ring" ? "Reduce-scatter: sums form" : "Up: sums form", about(0, middle)],
      [2, second, about(middle, drawn.steps)],
    ],
    starts: [0, half],
    lead: `Drawn: ${way} of ${answer.workers} workers, ${drawn.name ? `${drawn.name}, ${duration(drawn.seconds)} for the real ${counted(answer.ranks)} ranks` : "which NCCL does not offer here"}. Size: ${prefixed(answer.bytes, "B")}, ${answer.what}.`,
    legend: [
      ["one", "a part of the sum: it is added to"],
      ["whole", "the whole sum: it is passed on"],
    ],
    notes: [
      `The order of moves is that of ${answer.workers} workers; the time is the prediction's for ${counted(answer.ranks)} ranks in ${plural(answer.domains, "scale-up domain")}, shared out evenly over the ${drawn.steps} steps that are drawn.`,
      way === "ring"
        ? `Each rank sends 2 (n − 1) / n of the data: ${percent((2 * (answer.ranks - 1)) / answer.ranks, 0)} of ${prefixed(answer.bytes, "B")}, however many ranks there are, but in 2 (n − 1) steps one after the other: ${counted(drawn.real_steps)} here.`
        : "A tree is as deep as the logarithm of its ranks, so small messages arrive soon. NCCL uses two trees, each for half of the data, so that every rank sends and receives alike; inside a node it uses a chain.",
      ["fsdp", "zero2", "zero1"].includes(answer.shard) &&
        "With sharding the two halves of a ring stand alone: gradients need the reduce-scatter only, weights the all-gather only.",
      answer.chosen?.startsWith("NVLS") &&
        "NVLS: the NVLink switches add up, so that each rank sends and receives the data once.",
    ],
  };
}

function worker(answer, drawn, { x, y, cell }, number) {
  const first = x + 2 - (drawn.chunks * cell) / 2;
  const cells = Array.from({ length: drawn.chunks }, (_, chunk) =>
    s("rect", { class: "cell", x: first + chunk * cell, y: y - 5, width: cell - 3, height: 18, rx: 2 }),
  );
  const fills = cells.map((one) => one.cloneNode());
  const wide = drawn.chunks * cell + 14;
  return {
    x,
    y,
    group: s(
      "g",
      {},
      s("rect", { class: "card", x: x - wide / 2, y: y - 26, width: wide, height: 46, rx: 7 }),
      s(
        "text",
        { class: "strong", x, y: y - 11, "text-anchor": "middle" },
        wide > 70 ? `worker ${number + 1}` : number + 1,
      ),
      cells,
      fills,
    ),
    at(held) {
      fills.forEach((fill, chunk) => {
        const share = held[chunk] / answer.workers;
        set(fill, { class: share > 0.999 ? "whole" : "one", height: 18 * share, y: y - 5 + 18 * (1 - share) });
      });
    },
  };
}

function film(answer, drawn, { width, height, places, roads }) {
  const workers = places.map((place, number) => worker(answer, drawn, place, number));
  const most = Math.max(
    ...Array.from({ length: drawn.steps }, (_, step) => drawn.moves.filter((move) => move[0] === step).length),
  );
  const packets = Array.from({ length: most }, () => ({
    box: s("rect", { class: "packet", width: 22, height: 18, rx: 3 }),
    text: s("text", { class: "on", "text-anchor": "middle" }),
  }));
  const element = sceneOf(
    width,
    height,
    `${answer.workers} workers exchange ${drawn.chunks} chunks in ${drawn.steps} steps`,
    roads.map(([a, b]) =>
      s("line", { class: "road", x1: places[a].x, y1: places[a].y, x2: places[b].x, y2: places[b].y }),
    ),
    workers.map(({ group }) => group),
    packets.map(({ box, text }) => s("g", {}, box, text)),
  );
  return {
    element,
    at(moment) {
      const step = Math.min(Math.floor(moment + 1e-9), drawn.steps);
      workers.forEach((one, number) => one.at(drawn.held[step][number]));
      const moves = drawn.moves.filter((move) => move[0] === step);
      const share = 0.3 + 0.4 * Math.min(1, Math.max(0, moment - step)); // between the cards, so that a still picture shows it too
      packets.forEach(({ box, text }, index) => {
        const move = moves[index];
        for (const one of [box, text]) set(one, { visibility: move ? "visible" : "hidden" });
        if (!move) return;
        const [, from, to, chunk, adds] = move;
        const side = adds ? -1 : 1;
        const x =
          places[from].x + (places[to].x - places[from].x) * share + (places[from].x === places[to].x ? 14 * side : 0);
        const y = places[from].y + (places[to].y - places[from].y) * share;
        set(box, { class: `packet ${adds ? "gradients" : "copied"}`, x: x - 11, y: y - 9 });
        set(text, { x, y: y + 5 });
        text.textContent = chunk + 1;
      });
    },
  };
}

function ringPicture(answer, drawn, width) {
  const count = answer.workers;
  const narrow = width < 600;
  const cell = narrow ? 9 : 18;
  const wide = drawn.chunks * cell + 14;
  const down = Math.ceil(count / 2);
  const height = narrow ? 96 * down - 40 : 330;
  const places = narrow
    ? Array.from({ length: count }, (_, number) => {
        // down the right side, up the left one
        const right = number < down;
        return {
          x: right ? width - wide / 2 - 24 : wide / 2 + 24,
          y: 28 + 96 * (right ? number : count - 1 - number),
          cell,
        };
      })
    : Array.from({ length: count }, (_, number) => {
        const angle = -Math.PI / 2 + (2 * Math.PI * number) / count;
        return {
          x: width / 2 + Math.min(width / 2 - wide / 2 - 2, 330) * Math.cos(angle),
          y: height / 2 + 4 + (height / 2 - 34) * Math.sin(angle),
          cell,
        };
      });
  return film(answer, drawn, {
    width,
    height,
    places,
    roads: places.map((_, number) => [number, (number + 1) % count]),
  });
}

function treePicture(answer, drawn, width) {
  const depth = (number) => Math.floor(Math.log2(number + 1));
  const deepest = depth(answer.workers - 1);
  const cell = width < 600 ? 14 : 20;
  const height = 60 + deepest * 92;
  const places = Array.from({ length: answer.workers }, (_, number) => {
    const row = depth(number);
    const slots = 2 ** row;
    return { x: (width * (number - slots + 1.5)) / slots, y: 30 + row * 92, cell };
  });
  const roads = answer.tree.parents.flatMap((parent, number) => (parent === null ? [] : [[number, parent]]));
  return film(answer, drawn, { width, height, places, roads });
}

/** Time of ring and tree against the size. */
export function collectiveDetails(place, answer) {
  if (!answer.by_size.length) return put(place, quiet("One rank has nothing to exchange."));
  if (!place.querySelector(".chart"))
    put(place, h("div", { class: "chart", role: "group" }), h("div", { class: "ways" }));
  const [drawing, ways] = place.children;
  drawing.setAttribute("aria-label", answer.verdict);
  const sizes = answer.by_size.map(({ bytes }) => bytes);
  const bytes = (size) => prefixed(size, "B");
  const line = (key, name, dash) => ({
    x: sizes,
    y: answer.by_size.map((one) => one[key]),
    name,
    mode: "lines",
    line: { dash },
    text: answer.by_size.map((one) => one[key] && `${name}: ${bytes(one.bytes)} in ${duration(one[key])}`),
    ...TOLD,
  });
  const here = {
    x: [answer.bytes],
    y: [answer.chosen_s],
    name: `${bytes(answer.bytes)}: ${answer.chosen}`,
    mode: "markers",
    marker: { size: 11, symbol: "diamond" },
    text: [`${bytes(answer.bytes)} in ${duration(answer.chosen_s)}`],
    ...TOLD,
  };
  chart(
    drawing,
    [line("ring_s", "ring", "solid"), line("tree_s", "tree", "dash"), line("chosen_s", "what NCCL takes", "dot"), here],
    {
      xaxis: decades("size", sizes, bytes),
      yaxis: decades(
        "time",
        answer.by_size.map(({ chosen_s }) => chosen_s),
        duration,
      ),
      legend: ABOVE,
    },
  );
  const rows = answer.ways.map((one) => [
    one.name,
    duration(one.start_s),
    { content: duration(one.seconds), data: { way: one.name, value: one.seconds } },
  ]);
  const columns = [words("way"), "before anything moves", "in all"];
  put(ways, wide("Ways that NCCL considers", table(columns, rows)));
}
