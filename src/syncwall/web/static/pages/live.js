// Live: runs that are watched on this machine, asked for again and again.
import { article } from "../article.js";
import { ask, Refused } from "../ask.js";
import { at, h, put, quiet } from "../dom.js";
import { headed } from "../in_page.js";
import { command } from "../take_along.js";

const EVERY_MS = 2000;

function draw({ runs }) {
  headed(
    "Live",
    runs.length ? "What every watched run of yours on this machine does right now." : "No run is watched.",
  );
  put(
    at("content"),
    runs.map(run),
    !runs.length && [
      quiet("Runs of yours on this machine appear here while they are watched:"),
      h("p", {}, command("syncwall watch -- torchrun --nproc-per-node 8 train.py")),
    ],
  );
}

function run({ id, title, html }) {
  const written = article(html);
  written.dataset.run = id;
  written.prepend(h("h2", {}, title));
  return written;
}

async function look() {
  try {
    if (!document.hidden) draw(await ask("live"));
  } catch (error) {
    const said = error instanceof Refused ? error.message : "the server does not answer; asked again soon";
    headed("Live", said);
    put(at("content")); // what was shown may be over
  }
  setTimeout(look, EVERY_MS);
}

look();
