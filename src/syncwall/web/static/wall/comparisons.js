// Other runs beside the one in the form: what differs from it, kept in the address as
// `wall.with=cluster:dgx-b200;layout.tp:4,layout.pp:2`.
import * as state from "../state.js";

const EDIT =
  /^(model|cluster|nodes|gpus_per_node|gpus|seq|layout\.[a-z0-9_]+|software\.[a-z0-9_]+)[:=]([\w.+-]{0,80})$/;
const MOST = 5;

/** Each comparison as its edits: `[[["cluster", "dgx-b200"]], …]`. */
export function comparisons() {
  return state
    .get("wall.with")
    .split(";")
    .map((text) => edits(text, ","))
    .filter((found) => found.length)
    .slice(0, MOST);
}

/** `layout.tp:4 layout.pp:2` as pairs; what is no key of a run is left out. */
function edits(text, between) {
  return text
    .split(between)
    .map((one) => EDIT.exec(one.trim()))
    .filter(Boolean)
    .map(([, key, value]) => [key, value]);
}

function kept(all) {
  return all.map((one) => one.map(([key, value]) => `${key}:${value}`).join(",")).join(";");
}

/** What a comparison is called. */
export const label = (edited) =>
  edited
    .map(([key, value]) => (key === "cluster" ? value : `${key.replace("layout.", "")} ${value || "open"}`))
    .join(", ");

/** The run in the form with edits, as the API takes it. */
export function edited(changes) {
  const run = state.run();
  for (const [key, value] of changes) {
    const [outer, inner] = key.split(".");
    const place = inner ? run[outer] : run;
    const name = inner ?? outer;
    if (name === "nodes" || name === "gpus") for (const size of ["nodes", "gpus"]) delete run[size];
    if (value === "") delete place[name];
    else place[name] = key === "model" || key === "cluster" ? value : state.scalar(value);
  }
  return run;
}

/** Take a comparison away. */
export function remove(index) {
  const all = comparisons();
  all.splice(index, 1);
  state.set({ "wall.with": kept(all), "wall.of": null }, { lasting: true });
}

/** Let the form `form` add one. */
export function adding(form) {
  const [cluster, layout] = form.querySelectorAll("input");
  const said = form.querySelector("[role=alert]");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const words = layout.value
      .trim()
      .split(/[\s,;]+/)
      .filter(Boolean);
    const found = [
      ...(cluster.value.trim() ? edits(`cluster:${cluster.value.trim()}`, ",") : []),
      ...words.flatMap((word) => edits(word, ",")),
    ];
    if (!found.length || found.length < words.length) {
      said.textContent = "write for example layout.tp=4";
      return;
    }
    said.textContent = comparisons().length < MOST ? "" : `no more than ${MOST} at once`;
    if (said.textContent) return;
    cluster.value = layout.value = "";
    state.set({ "wall.with": kept([...comparisons(), found]) }, { lasting: true });
  });
}
