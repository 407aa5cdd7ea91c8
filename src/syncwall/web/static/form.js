// Controls named after keys of the address: what is set here stands there, and the other way round.
import { problemText } from "./ask.js";
import { h, put } from "./dom.js";
import { mends } from "./problems.js";
import * as state from "./state.js";
import { labelMeaning } from "./terms.js";

/** A control under its label, which says what it means if it is a term. */
export const field = (label, control) => told(h("label", { class: "field" }, h("span", {}, label), control));

function told(label) {
  const name = label.querySelector("span");
  const meaning = labelMeaning(name.textContent);
  if (!meaning) return label;
  name.className = "term";
  name.title = meaning;
  label.querySelector("input, select").setAttribute("aria-description", meaning);
  return label;
}

/** A control behind its label, in a row of others. */
export const inline = (label, ...controls) => h("label", { class: "inline" }, label, controls);

/** One of `choices`, an object of values and their words; `first` is what holds if the address says nothing. */
export const select = (key, choices, first = "", { data = {}, ...more } = {}) =>
  h("select", { name: key, data: { first, ...data }, ...more }, options(choices));

/** Words for each of `choices`. */
const options = (choices) => Object.entries(choices).map(([value, said]) => h("option", { value }, said));

/** Buttons of which one is pressed, the first if the address says nothing; pressing clears the key `clears`. */
export function segments(key, label, choices, clears = null) {
  const [first] = Object.keys(choices);
  const chosen = (value) => () =>
    state.set({ [key]: value === first ? null : value, ...(clears && { [clears]: null }) }, { lasting: true });
  const buttons = Object.entries(choices).map(([value, said]) =>
    h("button", { type: "button", data: { choice: value }, onclick: chosen(value) }, said),
  );
  return h("div", { class: "segments", role: "group", "aria-label": label, data: { key, first } }, buttons);
}

/** Keep the controls of `place` and the address together; `text(key)` is what a control shows. */
export function together(place, text = state.get) {
  for (const label of place.querySelectorAll("label.field")) told(label);
  const heard = (event) => {
    const control = event.target;
    if (!control.name || (event.type === "input" && !("live" in control.dataset))) return;
    const { first = "", clears } = control.dataset;
    const value = control.type === "checkbox" ? String(control.checked) : control.value.trim();
    const changes = { [control.name]: value === first ? null : value, ...(clears && { [clears]: null }) };
    state.set(changes, { lasting: event.type === "change" });
  };
  for (const type of ["input", "change"]) place.addEventListener(type, heard);
  place.addEventListener("submit", (event) => event.preventDefault());
  state.heard(() => shown(place, text));
  shown(place, text);
}

/** Bring the controls of `place` to what the address says. */
export function shown(place, text = state.get) {
  for (const control of place.querySelectorAll("[name]")) {
    const value = text(control.name) || (control.dataset.first ?? "");
    if (control.type === "checkbox") control.checked = value === "true";
    else if (control.tagName === "SELECT") chosen(control, value);
    else if (control !== document.activeElement) control.value = value;
  }
  for (const group of place.querySelectorAll(".segments"))
    for (const button of group.children)
      button.setAttribute("aria-pressed", button.dataset.choice === text(group.dataset.key, group.dataset.first));
}

/** Show `value` in a list, even one that it does not offer. */
function chosen(control, value) {
  if (![...control.options].some((option) => option.value === value)) control.append(h("option", { value }, value));
  control.value = value;
}

/**
 * Mark the controls of `place` that `problems` are about, by the `names` of each, and say each beside its control;
 * what is about none of them is said in `said`.
 */
export function marked(place, said, problems, names) {
  const known = new Map([...place.querySelectorAll("[name]")].map((control) => [control.name, control]));
  for (const control of known.values()) control.removeAttribute("aria-invalid");
  for (const old of place.querySelectorAll("[data-fault]")) old.remove();
  const others = problems.filter((one) => {
    const control = known.get(names(one.where).find((name) => known.has(name)));
    if (control) faultBeside(control, one);
    return !control;
  });
  put(
    said,
    others.map((one) => h("p", { class: "fault" }, problemText(one), " ", mends(one.where))),
  );
}

function faultBeside(control, { where, what }) {
  control.setAttribute("aria-invalid", "true");
  control.closest("details")?.setAttribute("open", "");
  const own = control.closest(".picker, .field, .check") ?? control;
  const whole = own.closest(".pair") ?? own;
  whole.after(h("p", { class: "fault", data: { fault: control.name } }, what, " ", mends(where)));
}
