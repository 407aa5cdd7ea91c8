// A list to search in: all entries at first, those that match once somebody writes.
import { h, put } from "./dom.js";
import { field } from "./form.js";
import { openPaste } from "./paste.js";
import * as state from "./state.js";

const plain = (text) => text.toLowerCase().replaceAll(/[^a-z0-9]+/g, "");
let count = 0;

/**
 * A control for the key `key`: `entries` are `{ name, title, group, about, also }`. Names of the hub are
 * found too, and the last line takes what is pasted or dropped.
 */
export function picker(key, label, entries, pasteWords) {
  count += 1;
  const listId = `picked-${count}`;
  const list = h("div", {
    id: listId,
    class: "picker-list",
    role: "listbox",
    "aria-label": `${label}s of the catalogue`,
  });
  const input = h("input", {
    name: key,
    role: "combobox",
    "aria-expanded": "false",
    "aria-controls": listId,
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
  });
  const paste = h(
    "button",
    { type: "button", class: "quiet picker-paste", onmousedown: (event) => event.preventDefault() },
    pasteWords,
  );
  paste.addEventListener("click", () => {
    close();
    openPaste();
  });
  const popup = h("div", { class: "picker-popup", hidden: true }, list, paste);
  let at = -1;

  const shownOptions = () => [...list.querySelectorAll("[role=option]")];

  function open(query = "") {
    const found = matching(entries, query);
    const chosen = state.get(key);
    const groups = [...Map.groupBy(found, ({ group }) => group)];
    put(
      list,
      groups.map(([group, some]) => [
        h("div", { class: "picker-group", "aria-hidden": "true" }, group),
        some.map((entry) => option(entry, entry.name === chosen)),
      ]),
      found.length === 0 && h("div", { class: "picker-none quiet" }, "Nothing of the catalogue matches."),
    );
    at = -1;
    popup.hidden = false;
    input.setAttribute("aria-expanded", "true");
    const now = list.querySelector("[aria-selected=true]");
    if (!query && now) list.scrollTop = now.offsetTop - list.clientHeight / 2;
    else list.scrollTop = 0;
  }

  function close() {
    popup.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function option(entry, isChosen) {
    const id = `${listId}-${entry.name}`;
    return h(
      "div",
      {
        id,
        role: "option",
        "aria-selected": String(isChosen),
        data: { value: entry.name },
        onmousedown: (event) => event.preventDefault(), // the input keeps the focus
        onclick: () => choose(entry.name),
      },
      h("span", {}, entry.title),
      h("small", {}, entry.about),
    );
  }

  function choose(name) {
    close();
    input.value = name;
    state.set({ [key]: name }, { lasting: true });
  }

  function move(by) {
    const options = shownOptions();
    if (!options.length) return;
    options[at]?.classList.remove("at");
    at = (at + by + options.length) % options.length;
    options[at].classList.add("at");
    options[at].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", options[at].id);
  }

  function pressed(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (popup.hidden) open();
      move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Escape" && !popup.hidden) {
      event.preventDefault();
      close();
    } else if (event.key === "Enter" && !popup.hidden) {
      const options = shownOptions();
      const one = options[at] ?? (options.length === 1 || isHub(input.value) ? options[0] : null);
      if (one) {
        event.preventDefault();
        choose(one.dataset.value);
      } else close();
    }
  }

  const dropped = (event) => {
    const file = event.dataTransfer?.files[0];
    if (!file) return;
    event.preventDefault();
    close();
    openPaste(file);
  };
  input.addEventListener("focus", () => input.select());
  input.addEventListener("click", () => popup.hidden && open());
  input.addEventListener("input", () => open(input.value));
  input.addEventListener("keydown", pressed);
  const whole = h("div", { class: "picker" }, field(label, input), popup);
  whole.addEventListener("focusout", (event) => !whole.contains(event.relatedTarget) && close());
  whole.addEventListener("dragover", (event) => event.preventDefault());
  whole.addEventListener("drop", dropped);
  return whole;
}

/** True for organisation/model. */
const isHub = (text) => /^[\w.-]+\/[\w.-]+$/.test(text.trim());

/** Entries that hold every word of `query`; of a name of the hub the one that it begins with, the longest first. */
function matching(entries, query) {
  const words = query.trim().toLowerCase().split(/\s+/).filter(Boolean);
  if (isHub(query)) {
    const wanted = plain(query.split("/")[1].replace(/^meta-/i, ""));
    const near = entries.filter(({ name, also }) => [name, ...also].some((one) => wanted.startsWith(plain(one))));
    return near.sort((a, b) => b.name.length - a.name.length).slice(0, 1);
  }
  return entries.filter(({ name, title, group, also }) => {
    const texts = [name, title, group, ...also].map((text) => [text.toLowerCase(), plain(text)]);
    return words.every((word) => texts.some(([text, squeezed]) => text.includes(word) || squeezed.includes(word)));
  });
}
