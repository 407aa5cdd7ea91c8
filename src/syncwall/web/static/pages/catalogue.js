// Catalogue: what is known, how far it can be trusted, and where it comes from.
import { ask, newest, Refused } from "../ask.js";
import { at, h, put } from "../dom.js";
import { csvFile } from "../exports.js";
import { counted } from "../format.js";
import { headed, linked } from "../in_page.js";
import * as state from "../state.js";
import { table, wide, words } from "../table.js";
import { command } from "../take_along.js";
import { written } from "../view.js";

const MOST = 60;
let known = null;

/** A link to an entry, or to a kind. */
const link = (kind, name, words, more) => linked("catalogue", { kind, name, find: null, sort: null }, words, more);

const shown = newest(async (signal) => {
  if (at("find") !== document.activeElement) at("find").value = state.get("catalogue.find");
  const kind = state.get("catalogue.kind", "device"),
    name = state.get("catalogue.name"),
    find = state.get("catalogue.find");
  put(
    at("kinds"),
    known.kinds.map((one) =>
      link(one.kind, null, [one.folder, h("span", { class: "quiet" }, ` ${one.rows.length}`)], {
        "aria-current": one.kind === kind && !find ? "true" : null,
        data: { kind: one.kind },
      }),
    ),
  );
  if (find) return results(find);
  if (!name) return listing(kind);
  try {
    if (name.includes("/") || !known.kinds.some((one) => one.kind === kind))
      throw new Refused([{ where: "", what: `there is no ${kind} ${name}` }]);
    entry(await ask(`catalogue/${encodeURIComponent(kind)}/${encodeURIComponent(name)}`, undefined, { signal }));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    headed("Not in the catalogue", error.message);
    put(at("content"));
  }
});

function results(find) {
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (row) => words.every((word) => row.cells.join(" ").toLowerCase().includes(word));
  const groups = known.kinds.map((one) => ({ ...one, rows: one.rows.filter(fits) })).filter((one) => one.rows.length);
  const count = groups.reduce((sum, one) => sum + one.rows.length, 0);
  headed(`“${find}”`, count ? `${counted(count)} entries` : "Nothing has these words.");
  put(
    at("content"),
    groups.map((one) =>
      h(
        "section",
        { class: "panel" },
        h("h2", {}, `${one.folder} (${one.rows.length})`),
        entries({ ...one, rows: one.rows.slice(0, MOST) }),
      ),
    ),
  );
}

function listing(kind) {
  const one = known.kinds.find((other) => other.kind === kind) ?? known.kinds[0];
  headed(
    `${one.folder[0].toUpperCase()}${one.folder.slice(1)}`,
    `${counted(one.rows.length)} ${one.kind === "price" ? "offers" : "entries"}. Choose one to see the trust and the source of every number.`,
  );
  put(at("content"), h("section", { class: "panel" }, h("h2", { class: "visually-hidden" }, "Entries"), entries(one)));
}

/** Rows in the order that the address says: `catalogue.sort=2`, or `-2` for the largest first. */
function sorted(rows) {
  const by = Number.parseInt(state.get("catalogue.sort"), 10);
  const place = Math.abs(by) - 1;
  if (!(place >= 0)) return rows;
  const order = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a ?? "").localeCompare(String(b ?? ""), "en");
  const known = rows.filter(({ values }) => (values[place] ?? null) !== null);
  const unknown = rows.filter((row) => !known.includes(row));
  known.sort((a, b) => Math.sign(by) * order(a.values[place], b.values[place]));
  return [...known, ...unknown];
}

/** The name of a column, which sorts by it; a second press turns the order round. */
function sorter(name, place) {
  const now = Number.parseInt(state.get("catalogue.sort"), 10);
  const next = now === place + 1 ? -now : place + 1;
  const arrow = Math.abs(now) === place + 1 ? (now > 0 ? " ▲" : " ▼") : "";
  const press = () => state.set({ "catalogue.sort": String(next) });
  return h("button", { type: "button", class: "link", data: { sort: place + 1 }, onclick: press }, `${name}${arrow}`);
}

function entries({ kind, folder, columns, rows: unsorted }) {
  const rows = sorted(unsorted);
  const made = rows.map(({ name, cells: [first, ...others] }) => ({
    data: { name },
    cells: [link(kind, name, first), ...others],
  }));
  const named = columns.map(({ name, is_number }, place) => {
    const head = sorter(name, place);
    return is_number ? { name: head } : words(head, place ? "" : "nowrap");
  });
  const file = () => [columns.map(({ name }) => name), ...rows.map(({ values }) => values)];
  return [wide(folder, table(named, made, { data: { kind } })), h("p", {}, csvFile(folder, file))];
}

function entry({ title, name, aliases, html, command: said }) {
  headed(title, aliases.length ? `${name}; also ${aliases.join(", ")}` : name);
  const end = ["In a terminal: ", command(said), ` Conventions: ${known.conventions}.`];
  put(at("content"), written(html), h("p", { class: "small quiet" }, end));
}

at("find-form").addEventListener("submit", (event) => event.preventDefault());
at("find").addEventListener("input", (event) =>
  state.set({ "catalogue.find": event.target.value, "catalogue.name": null }),
);
known = await ask("catalogue");
state.heard(() => shown());
shown();
