// The best layouts as a table: sorted by any column, filtered, with a box to tick for each.
import { h } from "../dom.js";
import * as state from "../state.js";
import { table, unseen, words } from "../table.js";

const WORDS = ["sharding", "schedule", "recompute", "exchange"];
const ORDER = ["tp", "pp", "cp", "ep", "etp", "dp", "micro batch", ...WORDS];
const MOST = 4;

/** Ranks that are ticked: "1", "4", "yours". */
export const ticked = () => state.get("plan.compare").split(",").filter(Boolean).slice(0, MOST);

/** Rows of an answer by their rank, and `yours` at last. */
export const ranked = (answer) => [
  ...answer.best.map((row, number) => [String(number + 1), row]),
  ...(answer.yours ? [["yours", answer.yours]] : []),
];

const MEASURES = {
  step: (row) => row.step_s,
  "80% interval": (row) => row.step_interval_s[0],
  "tokens/s/GPU": (row) => -row.tokens_per_s_per_gpu,
  MFU: (row) => -row.mfu,
  GB: (row) => row.memory_bytes,
  waits: (row) => row.exposed_s / row.step_s,
  cost: (row) => row.cost,
  GPUs: (row) => row.gpus,
};

/** What a cell of a column of the layout says. */
export const cell = (row, name) => row.cells[name] ?? (WORDS.includes(name) ? "" : "1");

/** Columns of the layout in which rows differ, or say something. */
export function layoutColumns(rows) {
  const named = new Set(rows.flatMap(([, row]) => Object.keys(row.cells)));
  return ORDER.filter((name) => named.has(name));
}

/** Rows in the order that the address says, those that its filters let through. */
export function chosenRows(answer) {
  const [sort, way] = state.get("plan.sort").split(":");
  const filters = Object.entries(state.under("plan.only."));
  const rows = ranked(answer).filter(
    ([rank, row]) => rank === "yours" || filters.every(([name, value]) => cell(row, name) === value),
  );
  if (!sort) return rows;
  const of = MEASURES[sort] ?? ((row) => cell(row, sort));
  const sign = way === "down" ? -1 : 1;
  const compared = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
  return rows.sort(([, a], [, b]) => sign * compared(of(a), of(b)));
}

/** The table of an answer. */
export function bestTable(answer) {
  const all = ranked(answer);
  const rows = chosenRows(answer);
  const several = new Set(all.map(([, row]) => row.gpus)).size > 1;
  const cells = layoutColumns(all);
  const cost = answer.has_price ? "USD/Gtoken" : "GPU-h/Gtoken";
  const spread = (name) => ({
    name: sorting(name),
    class: WORDS.includes(name) ? "words spread" : "spread",
    ...aria(name),
  });
  const columns = [
    words("#"),
    several && { name: sorting("GPUs"), ...aria("GPUs") },
    ...cells.map(spread),
    { name: sorting("step"), ...aria("step") },
    spread("80% interval"),
    ...["tokens/s/GPU", "MFU", "GB"].map((name) => ({ name: sorting(name), ...aria(name) })),
    spread("waits"),
    { name: sorting("cost", cost), class: "spread", ...aria("cost") },
    { name: unseen("take it"), class: "no-print" },
  ];
  const isPlain = !state.get("plan.sort");
  let tie = null;
  const lines = rows.flatMap(([rank, row]) => {
    const opens = isPlain && row.tie !== undefined && row.tie !== tie;
    tie = row.tie;
    return [
      opens && tieLine(rows, row.tie, columns.filter(Boolean).length),
      line(rank, row, cells, several),
      { class: "narrow-only", "aria-hidden": "true", cells: [{ content: row.said, class: "small quiet", colspan: 7 }] },
    ];
  });
  return table(columns, lines, { class: "best", "aria-label": "The best layouts" });
}

/** A line above layouts that the doubt does not tell apart. */
function tieLine(rows, tie, columns) {
  const count = rows.filter(([, row]) => row.tie === tie).length;
  if (count < 2) return false;
  const said = `These ${count} cannot be told apart: their steps differ by less than the doubt about it.`;
  return { class: "tie", data: { tie, count }, cells: [{ content: said, colspan: columns }] };
}

/** The name of a column that sorts when it is pressed: upwards, downwards, and by rank again. */
function sorting(name, said = name) {
  const [now, way] = state.get("plan.sort").split(":");
  const next = now !== name ? `${name}:up` : way === "up" ? `${name}:down` : null;
  const arrow = now === name ? (way === "down" ? " ▼" : " ▲") : "";
  return h(
    "button",
    { type: "button", class: "link sort", data: { sort: name }, onclick: () => state.set({ "plan.sort": next }) },
    `${said}${arrow}`,
  );
}

const aria = (name) => {
  const [now, way] = state.get("plan.sort").split(":");
  return now === name ? { "aria-sort": way === "down" ? "descending" : "ascending" } : {};
};

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
      several && row.texts.GPUs,
      ...cells.map((name) => cell(row, name)),
      ...["step", "80% interval", "tokens/s/GPU", "MFU"].map((name) => row.texts[name]),
      { content: row.texts.GB, class: row.fits ? "" : "fault" },
      row.texts.waits,
      row.texts.cost,
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
