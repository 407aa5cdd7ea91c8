// The best layouts as a table with a box to tick for each.
import { h } from "../dom.js";
import { counted, duration, figures, percent } from "../format.js";
import * as state from "../state.js";

const WORDS = ["sharding", "schedule", "recompute"];
export const MOST = 4;

/** Ranks that are ticked: "1", "4", "yours". */
export const ticked = () => state.get("plan.compare").split(",").filter(Boolean).slice(0, MOST);

/** The table of an answer. */
export function bestTable(answer) {
  const rows = [
    ...answer.best.map((row, number) => [String(number + 1), row]),
    ...(answer.yours ? [["yours", answer.yours]] : []),
  ];
  const several = new Set(rows.map(([, row]) => row.gpus)).size > 1;
  const cells = Object.keys(rows[0]?.[1].cells ?? {});
  const cost = answer.has_price ? "USD/Gtoken" : "GPU-h/Gtoken";
  return h(
    "table",
    { class: "best" },
    h("caption", { class: "visually-hidden" }, "The best layouts"),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", { class: "words" }, "#"),
        several && h("th", {}, "GPUs"),
        cells.map((name) => h("th", { class: `spread ${WORDS.includes(name) ? "words" : ""}` }, name)),
        ["step", "tokens/s/GPU", "MFU", "GB"].map((name) => h("th", {}, name)),
        ["waits", cost].map((name) => h("th", { class: "spread" }, name)),
        h("th", { class: "no-print" }, h("span", { class: "visually-hidden" }, "take it")),
      ),
    ),
    h(
      "tbody",
      {},
      rows.flatMap(([rank, row]) => [
        line(rank, row, cells, several),
        h(
          "tr",
          { class: "narrow-only", "aria-hidden": "true" },
          h("td", { class: "words small quiet", colspan: 7 }, row.said),
        ),
      ]),
    ),
  );
}

function line(rank, row, cells, several) {
  const isYours = rank === "yours";
  return h(
    "tr",
    { class: isYours ? "yours" : "", data: { rank, value: row.step_s, memory: row.memory_bytes } },
    h(
      "th",
      { scope: "row" },
      h(
        "label",
        { class: "check" },
        h("input", {
          type: "checkbox",
          checked: ticked().includes(rank),
          "aria-label": `Compare ${isYours ? "yours" : `number ${rank}`}: ${row.said}`,
          onchange: tick(rank),
        }),
        rank,
      ),
    ),
    several && h("td", {}, counted(row.gpus)),
    cells.map((name) => h("td", { class: `spread ${WORDS.includes(name) ? "words" : ""}` }, row.cells[name])),
    h("td", { class: "nowrap" }, duration(row.step_s)),
    h("td", {}, counted(row.tokens_per_s_per_gpu)),
    h("td", { class: "nowrap" }, percent(row.mfu)),
    h("td", { class: row.fits ? "" : "fault" }, figures(row.memory_bytes / 1e9)),
    h("td", { class: "nowrap spread" }, percent(row.exposed_s / row.step_s, 0)),
    h("td", { class: "spread" }, figures(row.cost)),
    h(
      "td",
      { class: "nowrap no-print" },
      !isYours && h("a", { href: taken(row), "aria-label": `Use number ${rank}` }, "use this"),
    ),
  );
}

const tick = (rank) => (event) => {
  const now = ticked().filter((one) => one !== rank);
  if (event.target.checked) now.push(rank);
  event.target.checked = now.length <= MOST && event.target.checked;
  state.set({ "plan.compare": now.slice(0, MOST).join(",") });
};

/** The address of the Predict page with this layout. */
export function taken(row) {
  const address = new URLSearchParams(state.query((key) => !key.startsWith("plan.")));
  const size = address.has("gpus") ? "gpus" : "nodes";
  address.set(size, row[size]);
  for (const [key, value] of Object.entries(row.keys)) {
    if (value === null) address.delete(`layout.${key}`);
    else address.set(`layout.${key}`, value);
  }
  return `/?${address}`;
}
