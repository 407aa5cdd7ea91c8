// A model or a run that somebody pastes, or drops as a file.
import { ask, Refused } from "./ask.js";
import { at, h } from "./dom.js";
import * as state from "./state.js";

/** The dialog `paste`, to be shown by whoever wants it. */
export function pasteDialog() {
  const area = h("textarea", {
    id: "pasted",
    "aria-label": "Text to read",
    spellcheck: "false",
    placeholder: '{"hidden_size": 4096, …}   or   model: llama-3.1-8b\n…',
  });
  const said = h("div", { class: "fault", role: "alert" });
  const take = async () => {
    try {
      const { run } = await ask("paste", { text: area.value });
      const flat = state.flattened(run);
      if (["cluster", "nodes", "gpus"].some((key) => key in flat)) state.setRun(flat);
      else state.set(flat, { lasting: true });
      at("paste").close();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      said.textContent = error.message;
    }
  };
  const drop = async (event) => {
    event.preventDefault();
    area.value = await (event.dataTransfer.files[0]?.text() ?? "");
  };
  area.addEventListener("drop", drop);
  return h(
    "dialog",
    { id: "paste", "aria-labelledby": "paste-title" },
    h("h2", { id: "paste-title" }, "Paste a model or a run"),
    h(
      "p",
      { class: "quiet" },
      "A Hugging Face config.json, a model of the catalogue's form, or a run file (YAML). A file can be dropped here. It is read on this machine.",
    ),
    area,
    said,
    h(
      "div",
      { class: "row" },
      h("button", { type: "button", class: "main", onclick: take }, "Use it"),
      h("button", { type: "button", onclick: () => at("paste").close() }, "Cancel"),
    ),
  );
}
