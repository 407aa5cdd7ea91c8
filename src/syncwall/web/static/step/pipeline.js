// A pipeline of stages, one forward, one backward.
import { h, s } from "../dom.js";
import { counted, duration, percent } from "../format.js";
import { hatches, lanes } from "./lanes.js";
import { sceneOf } from "./scene.js";
import { glowing, stillShare } from "./still.js";

const CARD = 58;

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
      `Times of a pass are the prediction's own; the last stage has the head. A message to the next stage takes ${duration(answer.transfer_s)}, of which ${duration(answer.handover_s)} is not hidden.`,
      `The prediction counts a bubble of ${duration(answer.predicted_bubble_s)}: one micro batch on all other stages. The exchange of gradients and the update come after it and are not drawn here.`,
      answer.run &&
        answer.run.schedule !== "1f1b" &&
        `Drawn is plain 1F1B. The run itself uses ${answer.run.schedule}, with a bubble of ${duration(answer.run.bubble_s)}.`,
      "Every stage keeps the activations of the micro batches that are forward but not yet backward: most on the first stage.",
    ],
  };
}

function stages(answer, width) {
  const columns = width < 500 ? Math.min(answer.stages, 4) : Math.min(answer.stages, 8);
  const rows = Math.ceil(answer.stages / columns);
  const gap = 10;
  const each = (width - gap * (columns - 1)) / columns;
  const height = rows * (CARD + gap) - gap;
  const drawn = Array.from({ length: answer.stages }, (_, stage) => {
    const x = (stage % columns) * (each + gap);
    const y = Math.floor(stage / columns) * (CARD + gap);
    const fill = s("rect", { class: "lane", x: x + 8, y: y + CARD - 13, width: each - 16, height: 6 });
    const bar = s("rect", { class: "lane", x: x + 8, y: y + CARD - 13, width: 0, height: 6 });
    const text = s("text", { class: "strong", x: x + 8, y: y + 36 });
    const glow = s("rect", { class: "glow", x, y, width: each, height: CARD, rx: 7 });
    const slow = answer.slow > 1 && stage === answer.worker;
    return {
      stage,
      bar,
      text,
      glow,
      each,
      x,
      group: s(
        "g",
        { class: each < 100 ? "tight" : null, data: { stage: stage + 1 } },
        s("rect", { class: "card", x, y, width: each, height: CARD, rx: 7 }),
        s(
          "text",
          { x: x + 8, y: y + 18, class: slow ? "late" : null },
          `stage ${stage + 1}${slow ? `, ${answer.slow}×` : ""}`,
        ),
        text,
        fill,
        bar,
        glow,
      ),
    };
  });
  const gaps = drawn.map(({ stage }) =>
    answer.gaps.filter((one) => one[0] === stage).map(([, start, end]) => [start, end]),
  );
  const element = sceneOf(
    width,
    height,
    `${answer.stages} pipeline stages`,
    hatches(),
    drawn.map(({ group }) => group),
  );
  return {
    element,
    at(t) {
      for (const { stage, bar, text, glow, each: wide, x, group } of drawn) {
        const slot = answer.slots.find((one) => one[0] === stage && one[3] <= t && t < one[4]);
        const gap_ = answer.gaps.find((one) => one[0] === stage && one[1] <= t && t < one[2]);
        text.textContent = slot
          ? `${slot[1] ? "forward" : "backward"} ${slot[2] + 1}`
          : gap_
            ? `waits ${duration(gap_[2] - gap_[1])}`
            : "done";
        group.dataset.state = slot ? (slot[1] ? "forward" : "backward") : "waits";
        glowing(glow, t >= answer.span_s ? 0 : stillShare(gaps[stage], t, answer.span_s));
        bar.setAttribute("class", slot ? (slot[1] ? "forward" : "backward") : "lane");
        const share = slot ? (t - slot[3]) / (slot[4] - slot[3]) : 0;
        bar.setAttribute("width", (wide - 16) * share);
        bar.setAttribute("x", slot && !slot[1] ? x + 8 + (wide - 16) * (1 - share) : x + 8);
      }
    },
  };
}

function stageLanes(answer, width, seek) {
  const rows = Array.from({ length: answer.stages }, (_, stage) => {
    const bars = answer.slots
      .filter((one) => one[0] === stage)
      .map(([, forward, micro, start, end]) => ({
        class: forward ? "forward" : "backward",
        start,
        end,
        gap: 1,
        text: micro + 1,
        tip: `stage ${stage + 1}, ${forward ? "forward" : "backward"} of micro batch ${micro + 1}\n${duration(end - start)}`,
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
  const head = ["stage", "forward", "backward", "stands still", "of the time drawn", "activations kept, at most"];
  return h(
    "div",
    { class: "wide", tabindex: 0, role: "region", "aria-label": "Numbers of each stage" },
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          head.map((name, column) => h("th", { scope: "col", class: column ? null : "words" }, name)),
        ),
      ),
      h(
        "tbody",
        {},
        answer.bubble_s.map((bubble, stage) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, stage + 1),
            h("td", {}, duration(answer.forward_s[stage])),
            h("td", {}, duration(answer.backward_s[stage])),
            h("td", { data: { bubble: stage + 1, value: bubble } }, duration(bubble)),
            h("td", {}, percent(bubble / answer.span_s, 0)),
            h("td", {}, `${answer.held[stage]} micro batches`),
          ),
        ),
      ),
    ),
  );
}
