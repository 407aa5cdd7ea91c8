// What a reader takes along: the link, and the command that says the same in a terminal.
import { at, copying, h, put } from "./dom.js";

/** A command with its flags whole, and a button that copies it. */
export function command(text) {
  const flags = text.split(/ (?=--)/).flatMap((flag, place) => [place ? " " : "", h("span", {}, flag)]);
  const copied = copying(() => text, "copied");
  return h(
    "span",
    { class: "command" },
    h("code", {}, flags),
    h("button", { type: "button", class: "quiet no-print", "aria-label": "Copy the command", onclick: copied }, "copy"),
  );
}

/** Buttons of the panel "Take it with you": `more` of them, and one for the link. */
export function takeAlong(...more) {
  const copied = copying(() => location.href, "Link copied");
  put(at("exports"), more, h("button", { type: "button", onclick: copied }, "Copy link"));
}
