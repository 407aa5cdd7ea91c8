// A recorded program: its file is sent to be priced, never run.
import { article } from "../article.js";
import { ask, newest, Refused } from "../ask.js";
import { at, h, put } from "../dom.js";
import { command } from "../take_along.js";

/** Bytes of a file that the server takes; written in base64 they fill a body. */
const MOST_BYTES = 180_000;
let chosen = null;

const shown = newest(async (signal) => {
  if (!chosen) return;
  const [name, cluster, compiled] = [chosen.name, at("cluster").value, at("compiled").checked];
  put(at("said"), "predicting …");
  try {
    if (chosen.size > MOST_BYTES) throw new Refused([{ where: "", what: `${name} has more than ${MOST_BYTES} bytes` }]);
    const found = await ask("program", { name, cluster, compiled, file: await written(chosen) }, { signal });
    put(at("said"), "");
    const flag = compiled ? " --compiled" : " --eager";
    put(
      at("content"),
      article(found.html),
      h("p", { class: "small quiet" }, command(`syncwall predict --work ${name} --cluster ${cluster}${flag}`)),
    );
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    put(at("said"), error.message);
    put(at("content"));
  }
});

/** A file in base64. */
async function written(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

function take(files) {
  if (!files.length) return;
  chosen = files[0];
  shown();
}

at("file").addEventListener("change", () => take(at("file").files));
for (const id of ["cluster", "compiled"]) at(id).addEventListener("change", () => shown());
at("drop").addEventListener("dragover", (event) => {
  event.preventDefault();
  at("drop").classList.add("over");
});
at("drop").addEventListener("dragleave", () => at("drop").classList.remove("over"));
at("drop").addEventListener("drop", (event) => {
  event.preventDefault();
  at("drop").classList.remove("over");
  take(event.dataTransfer.files);
});
const { clusters } = await ask("options");
put(
  at("cluster"),
  clusters.map(({ name, title }) => h("option", { value: name, selected: name === "dgx-h100" }, title || name)),
);
