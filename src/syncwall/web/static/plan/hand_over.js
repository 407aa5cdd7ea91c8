// What a search found, to be taken along: one of its layouts as settings, run file or report, and all of them as CSV.
import { ask } from "../ask.js";
import { at, copying, download, h, put } from "../dom.js";
import { csvFile } from "../exports.js";
import { inline } from "../form.js";
import { cell, chosenRows, layoutColumns, ranked, ticked } from "./table.js";

const FILES = {
  yaml: ["Run file (YAML)", "run.yaml", "application/yaml"],
  json: ["JSON", "prediction.json", "application/json"],
  html: ["Report (HTML)", "report.html", "text/html"],
};

/** Draw the buttons; `taking(row)` is the run of a row, `formats` are names and titles of settings. */
export function handOver(answer, taking, formats) {
  const rows = Object.fromEntries(ranked(answer).filter(([rank]) => rank !== "yours"));
  const first = ticked().find((rank) => rank in rows) ?? "1";
  const which = h(
    "select",
    { id: "hand-over-which" },
    Object.entries(rows).map(([rank, row]) =>
      h("option", { value: rank, selected: rank === first }, `#${rank}: ${row.said}`),
    ),
  );
  const run = () => taking(rows[which.value]);
  const said = h("p", { class: "small quiet", role: "status" });
  const files = Object.entries(FILES).map(([kind, [label, name, type]]) => {
    const saved = async () => download(name, await ask(`export/${kind}`, run()), type);
    return h("button", { type: "button", data: { export: kind }, onclick: saved }, label);
  });
  const settings = Object.entries(formats).map(([format, title]) => {
    const saved = async () => {
      const { text, unsaid, suffix } = await ask("settings", { run: run(), format });
      download(`${format}${suffix}`, text, "text/plain");
      put(said, unsaid.length ? `${title} has no words for: ${unsaid.join(", ")}` : `${title} says all of it`);
    };
    return h("button", { type: "button", data: { settings: format }, onclick: saved }, title.replace(/ \(.*/, ""));
  });
  const link = copying(() => location.href, "Link copied");
  put(
    at("hand-over"),
    h("div", { class: "row" }, inline("Layout", which)),
    h("div", { class: "row" }, h("span", { class: "quiet" }, "As a file"), files),
    h("div", { class: "row" }, h("span", { class: "quiet" }, "As settings of"), settings),
    h(
      "div",
      { class: "row" },
      h("span", { class: "quiet" }, "All of them"),
      csvFile("layouts", () => rowsOf(answer)),
      h("button", { type: "button", onclick: link }, "Copy link"),
    ),
    said,
  );
}

/** The rows that are shown, a line each; seconds and bytes as they are. */
function rowsOf(answer) {
  const rows = chosenRows(answer);
  const cells = layoutColumns(ranked(answer));
  const head = ["rank", "gpus", ...cells, "step_s", "step_p10_s", "step_p90_s", "tokens_per_s_per_gpu", "mfu"];
  const lines = rows.map(([rank, row]) => [
    rank,
    row.gpus,
    ...cells.map((name) => cell(row, name)),
    row.step_s,
    ...row.step_interval_s,
    row.tokens_per_s_per_gpu,
    row.mfu,
    row.memory_bytes,
    row.exposed_s,
    row.gpu_hours_per_billion_tokens,
    row.tie ?? "",
  ]);
  return [[...head, "memory_bytes", "exposed_s", "gpu_hours_per_billion_tokens", "tie"], ...lines];
}
