// A data-parallel step: workers around the network.
import { s } from "../dom.js";
import { counted, duration, percent, plural, prefixed } from "../format.js";
import { hatches } from "./lanes.js";
import { card, sceneOf, set } from "./scene.js";
import { glowing, isLong, stillShare } from "./still.js";
import { workerLanes } from "./team_lanes.js";

const CARD = 86;
const BUS = 60;
const ROAD = 34;
const SIDES = { weights: -22, gradients: 6, tokens: -8 }; // beside the middle of the road

/** The film of `answer` in `width` pixels: its elements, and what a player needs. */
export function teamFilm(answer, width, seek) {
  const lead = answer.span_s * 0.07; // the data are dealt out in no time; the film shows it all the same
  const scene = workersScene(answer, width, lead);
  const chart = workerLanes(answer, width, seek);
  const events = answer.events.map((event, number) => ({ ...event, at_s: number ? event.at_s : -lead }));
  return {
    scene: scene.picture,
    chart: chart.chart,
    from: -lead,
    to: answer.span_s,
    events,
    show(t, event) {
      scene.at(t);
      chart.at(t);
      return event;
    },
  };
}

function workersScene(answer, width, lead) {
  const above = Math.ceil(answer.workers / 2);
  const gap = width < 500 ? 6 : 12;
  const each = (width - gap * (above - 1)) / above;
  const below = answer.workers - above;
  const busY = CARD + ROAD;
  const height = busY + BUS + (below ? ROAD + CARD : 4);
  const cards = [];
  for (let worker = 0; worker < answer.workers; worker += 1) {
    const isUpper = worker < above;
    const column = isUpper ? worker : worker - above;
    const shift = isUpper ? 0 : ((above - below) * (each + gap)) / 2;
    cards.push(
      workerCard(answer, worker, {
        x: shift + column * (each + gap),
        y: isUpper ? 0 : busY + BUS + ROAD,
        width: each,
        height: CARD,
        isUpper,
        middle: width / 2,
        road: isUpper ? [CARD, busY] : [busY + BUS + ROAD, busY + BUS],
      }),
    );
  }
  const bus = network(answer, { y: busY, width });
  const picture = sceneOf(
    width,
    height,
    `${answer.workers} workers around the network`,
    hatches(),
    bus.group,
    cards.map((one) => one.group),
  );
  return {
    picture,
    at(t) {
      bus.at(t, lead);
      for (const one of cards) one.at(t, lead);
    },
  };
}

function workerCard(answer, worker, box) {
  const isLate = answer.slow > 1 && worker === answer.worker;
  const isTight = box.width < 100;
  const inner = box.width - 16;
  const gaps = answer.idle[worker].map(({ start_s, end_s }) => [start_s, end_s]);
  const bar = (name, from = 0, width = 0) =>
    s("rect", { class: name, x: box.x + 8, y: box.y + 63 + from, width, height: 13 - from });
  const [passed, returned, sent, updated] = [bar("forward"), bar("backward"), bar("gradients", 8), bar("update")];
  const name = isTight ? `${worker + 1}` : `worker ${worker + 1}`;
  const label = isLate ? `${name}, ${answer.slow}×${box.width < 170 ? "" : " slow"}` : name;
  const bars = [bar("lane", 0, inner), passed, returned, sent, updated];
  const drawn = card(box, { name: label, isLate, lines: 2, data: { worker: worker + 1 } }, bars);
  const sheet = s("rect", { class: "data", x: 0, y: 0, width: 12, height: 12, rx: 2 });
  const packets = Object.keys(SIDES).map((kind) => packetOf(kind, answer, box));
  const [y1, y2] = box.road;
  const middle = box.x + box.width / 2;
  drawn.group.prepend(s("line", { class: "road", x1: middle, x2: middle, y1, y2 }));
  drawn.group.append(sheet, ...packets.map(({ packet }) => packet));

  const span = (element, from, to) =>
    set(element, { x: box.x + 8 + inner * from, width: Math.max(0, inner * (to - from)) });
  return {
    group: drawn.group,
    at(t, lead) {
      const still = t < 0 ? 0 : stillShare(gaps, t, answer.span_s);
      const now = doing(answer, worker, t, still, box.width < 200);
      drawn.lines.forEach((line, number) => (line.textContent = number ? now.second : now.first));
      drawn.group.dataset.state = now.state;
      glowing(drawn.glow, now.state === "waits" ? 1 : still);
      span(passed, 0, passedShare(answer, worker, "forward", t));
      span(returned, 1 - passedShare(answer, worker, "backward", t), 1);
      span(sent, 1 - sentShare(answer, t), 1);
      span(updated, 0, passedShare(answer, worker, "update", t));
      dealt(sheet, t, lead, box, answer, worker);
      for (const one of packets) one.at(t);
    },
  };
}

/** What travels between a worker and the network: there in the first half of its time, then back. */
function packetOf(kind, answer, box) {
  const packet = s("rect", { class: `packet ${kind}`, width: 16, height: 12, rx: 2 });
  const flights = answer.flights.filter((one) => one.kind === kind);
  const x = box.x + box.width / 2 + SIDES[kind];
  const [near, far] = box.isUpper ? [box.road[0], box.road[1] - 12] : [box.road[0] - 12, box.road[1]];
  return {
    packet,
    at(t) {
      const flight = flights.find((one) => one.start_s <= t && t < one.end_s);
      packet.setAttribute("visibility", flight ? "visible" : "hidden");
      if (!flight) return;
      const share = (t - flight.start_s) / (flight.end_s - flight.start_s);
      set(packet, { x, y: near + (far - near) * (1 - Math.abs(2 * share - 1)) });
    },
  };
}

/** A sheet of data goes from the row under the words to its worker, and stays. */
function dealt(sheet, t, lead, box, answer, worker) {
  const share = t >= 0 ? 1 : 1 + t / lead;
  const start = { x: box.middle + (worker - (answer.workers - 1) / 2) * 18 - 6, y: CARD + ROAD + BUS - 16 };
  const end = { x: box.x + box.width - 20, y: box.y + 8 };
  set(sheet, { x: start.x + (end.x - start.x) * share, y: start.y + (end.y - start.y) * share });
}

function network(answer, { y, width }) {
  const one = s("text", { class: "strong", x: width / 2, y: y + 20, "text-anchor": "middle" });
  const two = s("text", { x: width / 2, y: y + 37, "text-anchor": "middle" });
  const fill = s("rect", { class: "carried", x: 0, y: y + BUS - 4, width: 0, height: 4 });
  const group = s("g", {}, s("rect", { class: "bus", x: 0, y, width, height: BUS, rx: 6 }), fill, one, two);
  return {
    group,
    at(t) {
      const active = answer.flights.filter((flight) => flight.start_s <= t && t < flight.end_s);
      const flight = active.find(({ kind }) => kind === "gradients") ?? active[0];
      const share = flight ? (t - flight.start_s) / (flight.end_s - flight.start_s) : 0;
      set(fill, { class: `carried ${flight?.kind ?? ""}`, width: width * share });
      const small = width < 500;
      if (t < 0) {
        one.textContent = `${counted(answer.dp * answer.sequences_each)} sequences, ${counted(answer.dp)} parts`;
        two.textContent = small
          ? `${counted(answer.sequences_each)} for each worker`
          : `${counted(answer.sequences_each)} sequences (${counted(answer.tokens_each)} tokens) for each worker`;
      } else if (!flight) {
        one.textContent = "network";
        two.textContent = "nothing moves between workers";
      } else {
        one.textContent = `${flight.kind} of ${flight.name}`;
        const others =
          active.length > 1 && !small
            ? `; ${active
                .filter((one_) => one_ !== flight)
                .map(({ kind, name }) => `${kind} of ${name}`)
                .join("; ")}`
            : "";
        two.textContent = `${flight.operation}, ${prefixed(flight.bytes, "B")}${small ? "" : `, ${plural(flight.calls, "call")}, ${duration(flight.moving_s)}`}${others}`;
      }
    },
  };
}

/** What a worker does at `t`, in two short lines. */
function doing(answer, worker, t, still, tight) {
  if (t < 0) return { state: "data", first: "gets its data", second: `${counted(answer.sequences_each)} sequences` };
  const idle = answer.idle[worker].find((one) => one.start_s <= t && t < one.end_s);
  if (idle && isLong(idle.start_s, idle.end_s, answer.span_s))
    return { state: "waits", first: `waits ${duration(idle.end_s - idle.start_s)}`, second: whom(idle) };
  if (t >= answer.marks.end_s[worker]) return { state: "done", first: "done", second: "next step" };
  const chunk = answer.chunks.findLast((one) => one.starts[worker] <= t) ?? answer.chunks[0];
  const layers =
    chunk.first === null
      ? chunk.name
      : chunk.first === chunk.last
        ? `layer ${chunk.first}`
        : `layers ${chunk.first}–${chunk.last}`;
  if (chunk.part === "update") return { state: "update", first: "update", second: "optimizer" };
  if (still < 0.05) return { state: chunk.part, first: chunk.part, second: layers };
  const near = answer.idle[worker].findLast((one) => one.start_s <= t) ?? answer.idle[worker][0];
  return {
    state: chunk.part,
    first: tight ? chunk.part : `${chunk.part}, ${layers}`,
    second: `waits ${percent(still, 0)}${tight ? "" : ` of the time ${whom(near)}`}`,
  };
}

/** What a worker mostly waits for. */
function whom(idle) {
  if (idle.worker_s >= idle.wires_s && idle.worker_s >= idle.host_s) return `for worker ${idle.whom + 1}`;
  return idle.host_s > idle.wires_s ? "for the host" : "for the network";
}

/** Share of a pass that a worker has done. */
function passedShare(answer, worker, part, t) {
  const chunks = answer.chunks.filter((one) => one.part === part);
  let done = 0;
  for (const { starts, ends } of chunks) {
    if (t >= ends[worker]) done += 1;
    else if (t > starts[worker]) {
      done += (t - starts[worker]) / (ends[worker] - starts[worker]);
      break;
    } else break;
  }
  return chunks.length ? done / chunks.length : 0;
}

/** Share of the gradients that all workers have. */
function sentShare(answer, t) {
  const flights = answer.flights.filter(({ kind }) => kind === "gradients");
  const whole = flights.reduce((sum, { bytes }) => sum + bytes, 0);
  const come = flights.reduce(
    (sum, one) => sum + one.bytes * Math.min(1, Math.max(0, (t - one.start_s) / (one.end_s - one.start_s || 1))),
    0,
  );
  return whole ? come / whole : 0;
}
