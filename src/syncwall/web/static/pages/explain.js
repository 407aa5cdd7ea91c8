// Files that people have, read by the server: verdict, ledger, why and next.
import { article } from "../article.js";
import { ask, follow, newest, Refused } from "../ask.js";
import { at, h, put } from "../dom.js";
import { command } from "../take_along.js";

/** Bytes that the server takes in one form. */
const MOST_BYTES = 320 * 2 ** 20 - 100_000;
const PASTED = "pasted.txt";
const dropped = { files: [], against: [] };
let kept = "";

const shown = newest(async (signal) => {
  const asked = question();
  if (!asked) return put(at("said"), "Choose files or paste text first.");
  put(at("content"));
  at("keep").hidden = true;
  put(at("said"), "reading …");
  try {
    await follow(asked.path, asked.body, (said) => told(said, asked.words), { signal });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    put(at("said"), error.message);
  }
  return undefined;
});

/** Dropped files, with what was pasted as one of them. */
function given() {
  const text = at("text").value;
  const pasted = text.trim() ? [new File([text], PASTED, { type: "text/plain" })] : [];
  return { files: [...dropped.files, ...pasted], against: [...dropped.against] };
}

/** What is asked: of dropped files and pasted text, or of names of the server's folder. */
function question() {
  const of = given();
  const texts = { cluster: at("cluster").value, run: at("run").value };
  const flags = texts.cluster ? ` --cluster ${texts.cluster}` : "";
  if (of.files.length) {
    const body = new FormData();
    const all = Object.entries(of).flatMap(([field, files]) => files.map((file) => [field, file]));
    if (all.reduce((sum, [, file]) => sum + file.size, 0) > MOST_BYTES) {
      put(at("said"), "More than 320 MB: use `syncwall explain` on the machine that has them.");
      return null;
    }
    for (const [field, file] of all) body.append(field, file, file.name);
    for (const [name, text] of Object.entries(texts)) if (text) body.append(name, text);
    const names = (field) => of[field].map((file) => file.name).join(" ");
    const against = of.against.length ? ` --against ${names("against")}` : "";
    const files = names("files") === PASTED ? "-" : names("files");
    return { path: "explain", body, words: `syncwall explain ${files}${against}${flags}` };
  }
  const [name, against] = [at("name").value, at("earlier").value];
  if (!name) return null;
  const more = against ? ` --against ${against}` : "";
  return {
    path: "explain/folder",
    body: { name, against, ...texts },
    words: `syncwall explain ${name}${more}${flags}`,
  };
}

const SAID = {
  wrong: "Something is wrong.",
  suspect: "Something may be wrong.",
  "not judged": "Not judged: see what to give.",
  healthy: "Healthy.",
};

function told({ progress, answer }, words) {
  if (!answer) return put(at("said"), `reading … ${Math.round(100 * progress)} %`);
  put(at("said"), SAID[answer.record.state]);
  put(at("content"), article(answer.html), h("p", { class: "small quiet" }, command(words)));
  kept = answer.page;
  at("keep").hidden = false;
  return undefined;
}

function take(field, files) {
  dropped[field] = files;
  const said = files.length > 6 ? `${files.length} files` : [...files].map((file) => file.name).join(", ");
  put(document.querySelector(`[data-field=${field}] [data-names]`), said);
}

for (const box of document.querySelectorAll("[data-field]")) {
  const { field } = box.dataset;
  at(field).addEventListener("change", () => take(field, at(field).files));
  box.addEventListener("dragover", (event) => {
    event.preventDefault();
    box.classList.add("over");
  });
  box.addEventListener("dragleave", () => box.classList.remove("over"));
  box.addEventListener("drop", (event) => {
    event.preventDefault();
    box.classList.remove("over");
    take(field, event.dataTransfer.files);
    if (field === "files") shown();
  });
}
at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  shown();
});
at("keep").addEventListener("click", () => {
  const address = URL.createObjectURL(new Blob([kept], { type: "text/html" }));
  h("a", { href: address, download: "explained.html" }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
});
const [{ clusters }, { names }] = await Promise.all([ask("options"), ask("explain/folder")]);
at("cluster").append(...clusters.map(({ name, title }) => h("option", { value: name }, title || name)));
at("folder").hidden = !names.length;
for (const id of ["name", "earlier"])
  at(id).append(h("option", { value: "" }, "–"), ...names.map((name) => h("option", { value: name }, name)));
