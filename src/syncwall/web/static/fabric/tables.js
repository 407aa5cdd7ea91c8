// The numbers beside the drawing.
import { colour as causeColour, ordered } from "../causes.js";
import { h, put } from "../dom.js";
import { counted, duration, percent, prefixed } from "../format.js";
import { ledger } from "../ledger.js";
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
export function axes(place, answer) {
  const links = answer.links.map(({ link }) => link);
  if (!answer.axes.length) return put(place, h("p", { class: "quiet" }, "Nothing is sent: one GPU works alone."));
  put(
    place,
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { class: "words" }, "axis"),
          h("th", { class: "words" }, "where it runs"),
          h("th", {}, "inside"),
          h("th", {}, "by NICs"),
          links.map((link) => h("th", {}, HEADS[link])),
          h("th", {}, "takes"),
          h("th", {}, "exposed"),
        ),
      ),
      h(
        "tbody",
        {},
        answer.axes.map((one) =>
          h(
            "tr",
            { data: { axis: one.axis } },
            h(
              "th",
              { scope: "row", class: "nowrap" },
              h("span", { class: "swatch", style: { "--cause": colour(one.axis) } }),
              `${one.axis} ${counted(one.ranks)}`,
              h("span", { class: "quiet" }, ` ${one.name}`),
            ),
            h("td", { class: "words" }, one.where),
            bytes(one.scale_up_bytes, "scale-up"),
            bytes(one.nic_bytes, "nic"),
            links.map((link) =>
              h(
                "td",
                { data: { link, value: one.utilisation[link] } },
                one.utilisation[link] ? percent(one.utilisation[link]) : "–",
              ),
            ),
            h("td", { class: "nowrap" }, duration(one.busy_s)),
            h("td", { class: "nowrap", data: { value: one.exposed_s } }, duration(one.exposed_s)),
          ),
        ),
        h(
          "tr",
          { class: "sum" },
          h("th", { scope: "row" }, "together"),
          h("td", {}),
          h("td", {}),
          h("td", {}),
          answer.links.map((one) =>
            h("td", { data: { total: one.link, value: one.total } }, one.total ? percent(one.total) : "–"),
          ),
          h("td", {}),
          h("td", {}),
        ),
      ),
    ),
  );
}

const bytes = (value, kind) =>
  h("td", { class: "nowrap", data: { bytes: kind, value } }, value ? prefixed(value, "B") : "–");

/** What one broken part of each kind does. */
export function each(place, answer, pressed) {
  put(
    place,
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h("tr", {}, h("th", { class: "words" }, "part"), h("th", {}, "step"), h("th", { class: "words" }, "because")),
      ),
      h(
        "tbody",
        {},
        answer.if_one_fails.map((one) =>
          h(
            "tr",
            { data: { kind: one.kind, value: one.step_s ?? "" } },
            h(
              "th",
              { scope: "row" },
              h("button", { type: "button", class: "link", onclick: () => pressed(one.part) }, one.name),
            ),
            h("td", { class: "nowrap" }, slower(one)),
            h("td", { class: "words quiet" }, one.why),
          ),
        ),
      ),
    ),
  );
}

const slower = (one) =>
  one.step_s === null
    ? h("strong", { class: "more" }, "stops")
    : one.slower < 0.001
      ? "same"
      : h("span", { class: "more" }, `+${percent(one.slower, one.slower < 0.1 ? 1 : 0)}`);

/** What became longer, or the whole ledger if nothing is broken. */
export function change(place, about, answer) {
  const more = ordered(answer.change_s);
  if (!answer.failed.length || !answer.goes_on) {
    put(about, `${duration(answer.healthy.step_s)} a step${answer.failed.length ? ", while it ran" : ""}`);
    return put(place, ledger(answer.healthy.ledger_s));
  }
  put(about, `${duration(answer.healthy.step_s)} → ${duration(answer.now.step_s)}`);
  if (!more.length) return put(place, h("p", { class: "quiet" }, "Nothing changes."));
  put(
    place,
    h(
      "table",
      {},
      h(
        "thead",
        { class: "visually-hidden" },
        h(
          "tr",
          {},
          h("th", { class: "words" }, "cause"),
          h("th", {}, "before"),
          h("th", {}, "now"),
          h("th", {}, "change"),
        ),
      ),
      h(
        "tbody",
        {},
        more.map(([cause, seconds]) =>
          h(
            "tr",
            { data: { cause, value: seconds } },
            h("th", { scope: "row" }, h("span", { class: "swatch", style: { "--cause": causeColour(cause) } }), cause),
            h("td", { class: "nowrap quiet" }, duration(answer.healthy.ledger_s[cause] ?? 0)),
            h("td", { class: "nowrap" }, duration(answer.now.ledger_s[cause] ?? 0)),
            h(
              "td",
              { class: `nowrap ${seconds > 0 ? "more" : "less"}` },
              `${seconds > 0 ? "+" : "−"}${duration(Math.abs(seconds))}`,
            ),
          ),
        ),
      ),
    ),
  );
}
