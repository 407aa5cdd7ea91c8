// The numbers beside the drawing.
import { h, quiet, swatch } from "../dom.js";
import { counted, duration, percent, prefixed } from "../format.js";
import { table, words } from "../table.js";
import { colour } from "./axes.js";

const HEADS = {
  "scale-up": "scale-up busy",
  nic: "NICs busy",
  "leaf-spine": "leaf–spine busy",
  "spine-core": "spine–core busy",
  local: "group links busy",
  global: "global links busy",
};

/** One line for each axis. */
export function axes({ links, axes: found }) {
  if (!found.length) return quiet("Nothing is sent: one GPU works alone.");
  const busy = (share, data) => ({ content: share ? percent(share) : "–", data: { ...data, value: share } });
  const rows = found.map((one) => ({
    data: { axis: one.axis },
    cells: [
      [swatch(colour(one.axis)), `${one.axis} ${counted(one.ranks)}`, h("span", { class: "quiet" }, ` ${one.name}`)],
      one.where,
      bytes(one.scale_up_bytes, "scale-up"),
      bytes(one.nic_bytes, "nic"),
      ...links.map(({ link }) => busy(one.utilisation[link], { link })),
      duration(one.busy_s),
      { content: duration(one.exposed_s), data: { value: one.exposed_s } },
    ],
  }));
  const totals = links.map(({ link, total }) => busy(total, { total: link }));
  return table(
    [
      words("axis", "nowrap"),
      words("where it runs"),
      "inside",
      "by NICs",
      ...links.map(({ link }) => HEADS[link]),
      "takes",
      "exposed",
    ],
    [...rows, { class: "sum", cells: ["together", "", "", "", ...totals, "", ""] }],
  );
}

const bytes = (value, kind) => ({ content: value ? prefixed(value, "B") : "–", data: { bytes: kind, value } });

/** What one broken part of each kind does. */
export function each(answer, pressed) {
  if (!answer.if_one_fails.length) return quiet("Parts of so large a fabric are not broken one by one here.");
  const rows = answer.if_one_fails.map((one) => ({
    data: { kind: one.kind, value: one.step_s ?? "" },
    cells: [
      h("button", { type: "button", class: "link", onclick: () => pressed(one.part) }, one.name),
      slower(one),
      { content: one.why, class: "quiet" },
    ],
  }));
  return table([words("part"), "step", words("because")], rows);
}

const slower = (one) =>
  one.step_s === null
    ? h("strong", { class: "worse" }, "stops")
    : one.slower < 0.001
      ? "same"
      : h("span", { class: "worse" }, `+${percent(one.slower, one.slower < 0.1 ? 1 : 0)}`);
