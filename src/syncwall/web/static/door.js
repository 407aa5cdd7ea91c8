// The first thing that a visitor sees: what this is, four runs to begin with, and where to read more.
// DeepSeek-V3 is spread as its report says (arXiv 2412.19437, section 3.2).
import { at, h, put } from "./dom.js";
import { openPaste } from "./paste.js";
import * as state from "./state.js";

const EXAMPLES = {
  "Llama 70B on 512 H100": state.FIRST,
  "DeepSeek-V3 on 2,048 H800": {
    model: "deepseek-v3",
    cluster: "deepseek-h800",
    nodes: "256",
    "layout.pp": "16",
    "layout.ep": "64",
    "layout.schedule": "dualpipe",
    "layout.shard": "zero1",
    "layout.dispatcher": "deepep",
    "layout.overlap_ep": "true",
    "layout.precision": "fp8",
    "layout.global_batch": "15360",
  },
  "Llama 8B on one node of 8 GPUs": {
    model: "llama-3.1-8b",
    cluster: "dgx-h100",
    nodes: "1",
    "layout.shard": "fsdp",
    "layout.global_batch": "64",
  },
};

/** Draw it into the element `door`, and mark the example that the address holds. */
export function door() {
  const shown = Object.entries(EXAMPLES).map(([words, run]) =>
    h("button", { type: "button", onclick: () => state.setRun(run) }, words),
  );
  const mine = h("button", { type: "button", class: "main", onclick: () => openPaste() }, "Paste mine");
  put(
    at("door"),
    h(
      "p",
      {},
      h("b", {}, "How fast will a training run on many GPUs be, where does its time go, and what should you change? "),
      "Say what you train and on what: every number below is computed from that, with its doubt. Nothing is run on a GPU.",
    ),
    h(
      "div",
      { class: "row" },
      h("span", { class: "quiet" }, "Begin with"),
      shown,
      mine,
      h("a", { href: "./help" }, "Words and documentation"),
    ),
  );
  const marked = () => {
    const now = Object.entries(state.flattened(state.run()));
    const isNow = (run) =>
      now.length === Object.keys(run).length && now.every(([key, value]) => run[key] === String(value));
    for (const [place, run] of Object.values(EXAMPLES).entries())
      shown[place].setAttribute("aria-pressed", String(isNow(run)));
  };
  state.heard(marked);
  marked();
}
