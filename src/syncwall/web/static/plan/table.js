// The best layouts as a table with a box to tick for each.
import { h } from "../dom.js";
import { counted, duration, figures, percent } from "../format.js";
import * as state from "../state.js";
import { table, unseen, words } from "../table.js";

const WORDS = ["sharding", "schedule", "recompute"];
const MOST = 4;

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
  const columns = [
    words("#"),
    several && "GPUs",
    ...cells.map((name) => ({ name, class: WORDS.includes(name) ? "words spread" : "spread" })),
    ...["step", "tokens/s/GPU", "MFU", "GB"],
    ...["waits", answer.has_price ? "USD/Gtoken" : "GPU-h/Gtoken"].map((name) => ({ name, class: "spread" })),
    { name: unseen("take it"), class: "no-print" },
  ];
  const lines = rows.flatMap(([rank, row]) => [
    line(rank, row, cells, several),
    {
      class: "narrow-only",
      "aria-hidden": "true",
      cells: [{ content: row.said, class: "small quiet", colspan: 7 }],
    },
  ]);
  return table(columns, lines, { class: "best", "aria-label": "The best layouts" });
}

function line(rank, row, cells, several) {
  const isYours = rank === "yours";
  const box = h("input", {
    type: "checkbox",
    checked: ticked().includes(rank),
    "aria-label": `Compare ${isYours ? "yours" : `number ${rank}`}: ${row.said}`,
    onchange: tick(rank),
  });
  return {
    class: isYours && "yours",
    data: { rank, value: row.step_s, memory: row.memory_bytes },
    cells: [
      h("label", { class: "check" }, box, rank),
      several && counted(row.gpus),
      ...cells.map((name) => row.cells[name]),
      duration(row.step_s),
      counted(row.tokens_per_s_per_gpu),
      percent(row.mfu),
      { content: figures(row.memory_bytes / 1e9), class: row.fits ? "" : "fault" },
      percent(row.exposed_s / row.step_s, 0),
      figures(row.cost),
      isYours ? "" : h("a", { href: taken(row), "aria-label": `Use number ${rank}` }, "use this"),
    ],
  };
}

const tick = (rank) => (event) => {
  const now = ticked().filter((one) => one !== rank);
  if (event.target.checked) now.push(rank);
  event.target.checked = now.length <= MOST && event.target.checked;
  state.set({ "plan.compare": now.slice(0, MOST).join(",") });
};

/** The address of the Predict page with this layout. */
function taken(row) {
  const address = new URLSearchParams(state.query((key) => !key.startsWith("plan.")));
  const size = address.has("gpus") ? "gpus" : "nodes";
  address.set(size, row[size]);
  for (const [key, value] of Object.entries(row.keys)) {
    if (value === null) address.delete(`layout.${key}`);
    else address.set(`layout.${key}`, value);
  }
  return `./?${address}`;
}
