// A pipeline of stages, pass by pass.
import { s } from "../dom.js";
import { counted, duration, percent, plural } from "../format.js";
import { table, wide, words } from "../table.js";
import { hatches, lanes } from "./lanes.js";
import { card, sceneOf, set } from "./scene.js";
import { glowing, stillShare } from "./still.js";

const CARD = 58;
const WHICH = { input: "input gradients", weight: "weight gradients" };
const named = (which) => WHICH[which] ?? which;
const partOf = (answer, part) => (answer.virtual > 1 ? `, part ${part + 1} of ${answer.virtual}` : "");

/** Kinds of passes that are drawn, for the legend. */
export function passKinds(answer) {
  const found = [...new Set(answer.slots.map(([, which]) => which))];
  const parts = answer.virtual > 1 ? [["forward paler", "paler: a rank's other virtual stages"]] : [];
  return [...found.map((which) => [which, named(which)]), ...parts];
}

/** The film of `answer`. */
export function pipelineFilm(answer, width, seek) {
  const cards = stages(answer, width);
  const chart = stageLanes(answer, width, seek);
  const some =
    answer.drawn < answer.microbatches ? `${answer.drawn} of ${counted(answer.microbatches)}` : `all ${answer.drawn}`;
  return {
    scene: cards.element,
    chart: chart.chart,
    from: 0,
    to: answer.span_s,
    events: answer.events,
    verdict: answer.verdict,
    show(t) {
      cards.at(t);
      chart.at(t);
    },
    starts: answer.phases,
    lead: `${answer.own_pp === 1 ? `This run has no pipeline; shown is the same run with pp ${answer.pp}: ` : ""}${answer.layout}${answer.fits ? "" : " (does not fit in memory)"}.`,
    notes: [
      `${answer.stages < answer.pp ? `${answer.stages} of ${answer.pp} stages and ` : ""}${some} micro batches are drawn. ${answer.slow > 1 ? "" : "The bubble does not grow with them: more micro batches make it a smaller share."}`,
      `Times of a pass are the prediction's own; the last stage has the output layer. A message to the next stage takes ${duration(answer.transfer_s)}, of which ${duration(answer.handover_s)} is not hidden.`,
      `The prediction counts a bubble of ${duration(answer.predicted_bubble_s)}${answer.schedule === "1f1b" ? ": one micro batch on all other stages" : ""}. The exchange of gradients and the update come after it and are not drawn here.`,
      answer.run &&
        answer.run.schedule !== answer.schedule &&
        `Drawn is plain 1F1B. The run itself uses ${answer.run.schedule}, with a bubble of ${duration(answer.run.bubble_s)}; nobody has written down its order for so many stages and micro batches.`,
      ...schedulePoints(answer),
      `Every stage keeps the activations of the micro batches that are forward but not yet backward${answer.held[0] > Math.max(...answer.held.slice(1)) ? ": most on the first stage" : ""}.`,
    ],
  };
}

/** What is particular about a schedule. */
function schedulePoints(answer) {
  const half = answer.drawn / 2;
  return [
    answer.virtual > 1 &&
      `Every rank holds ${answer.virtual} parts of the model that are not neighbours, its virtual stages; its time is shared out evenly over them.`,
    answer.slots.some(([, which]) => which === "weight") &&
      "Backward passes are split: gradients of the input are what the stage before waits for, gradients of the weights can wait and fill the gaps.",
    answer.schedule.startsWith("dualpipe") &&
      "Forward and backward passes of different micro batches run together, in pairs; they are drawn one after the other.",
    answer.schedule === "dualpipe" &&
      `Micro batches enter at both ends: 1 to ${half} at the first rank, ${half + 1} to ${answer.drawn} at the last.`,
  ].filter(Boolean);
}

function stages(answer, width) {
  const columns = Math.min(answer.stages, width < 500 ? 4 : 8);
  const rows = Math.ceil(answer.stages / columns);
  const gap = 10;
  const each = (width - gap * (columns - 1)) / columns;
  const cards = Array.from({ length: answer.stages }, (_, stage) =>
    stageCard(answer, stage, {
      x: (stage % columns) * (each + gap),
      y: Math.floor(stage / columns) * (CARD + gap),
      width: each,
      height: CARD,
    }),
  );
  const element = sceneOf(
    width,
    rows * (CARD + gap) - gap,
    `${answer.stages} pipeline stages`,
    hatches(),
    cards.map(({ group }) => group),
  );
  return { element, at: (t) => cards.forEach((one) => one.at(t)) };
}

function stageCard(answer, stage, box) {
  const slots = answer.slots.filter((one) => one[0] === stage);
  const gaps = answer.gaps.filter((one) => one[0] === stage).map(([, start, end]) => [start, end]);
  const isLate = answer.slow > 1 && stage === answer.worker;
  const name = `stage ${stage + 1}${isLate ? `, ${answer.slow}×` : ""}`;
  const [left, inner] = [box.x + 8, box.width - 16];
  const lane = () => s("rect", { class: "lane", x: left, y: box.y + CARD - 13, width: inner, height: 6 });
  const [ground, bar] = [lane(), lane()];
  const drawn = card(box, { name, isLate, data: { stage: stage + 1 } }, ground, bar);
  return {
    group: drawn.group,
    at(t) {
      const slot = slots.find(([, , , start, end]) => start <= t && t < end);
      const gap = gaps.find(([start, end]) => start <= t && t < end);
      const pass = slot?.[1];
      const share = slot ? (t - slot[3]) / (slot[4] - slot[3]) : 0;
      const [line] = drawn.lines;
      line.textContent = slot ? `${named(pass)} ${slot[2] + 1}` : gap ? `waits ${duration(gap[1] - gap[0])}` : "done";
      drawn.group.dataset.state = pass ?? "waits";
      glowing(drawn.glow, t >= answer.span_s ? 0 : stillShare(gaps, t, answer.span_s));
      const x = pass && pass !== "forward" ? left + inner * (1 - share) : left;
      set(bar, { class: pass ?? "lane", width: inner * share, x });
    },
  };
}

function stageLanes(answer, width, seek) {
  const rows = Array.from({ length: answer.stages }, (_, stage) => {
    const bars = answer.slots
      .filter((one) => one[0] === stage)
      .map(([, which, micro, start, end, part]) => ({
        class: part ? `${which} paler` : which,
        start,
        end,
        gap: 1,
        text: micro + 1,
        tip: `stage ${stage + 1}, ${named(which)} of micro batch ${micro + 1}${partOf(answer, part)}\n${duration(end - start)}`,
      }));
    const waits = answer.gaps
      .filter((one) => one[0] === stage)
      .map(([, start, end]) => ({
        class: "waits",
        start,
        end,
        gap: 1,
        data: { idle: end - start },
        tip: `stage ${stage + 1} has nothing to do for ${duration(end - start)}`,
      }));
    return {
      name: `stage ${stage + 1}`,
      strong: answer.slow > 1 && stage === answer.worker,
      lanes: [{ height: 22, bars: [...waits, ...bars] }],
    };
  });
  return lanes({
    rows,
    span: answer.span_s,
    width,
    label: `Lanes of ${answer.stages} stages over ${duration(answer.span_s)}. ${answer.verdict}.`,
    seek,
  });
}

/** Numbers of each stage. */
export function pipelineDetails(answer) {
  const rows = answer.bubble_s.map((bubble, stage) => [
    stage + 1,
    duration(answer.forward_s[stage]),
    duration(answer.backward_s[stage]),
    { content: duration(bubble), data: { bubble: stage + 1, value: bubble } },
    percent(bubble / answer.span_s, 0),
    plural(Number(answer.held[stage].toFixed(2)), "micro batch", "micro batches"),
  ]);
  const head = ["forward", "backward", "stands still", "of the time drawn", "activations kept, at most"];
  return wide("Numbers of each stage", table([words("stage"), ...head], rows));
}
