// Keys of a run in words, for those who do not write run files.

const KEYS = {
  model: "model",
  cluster: "cluster",
  nodes: "nodes",
  gpus: "GPUs",
  gpus_per_node: "GPUs a node",
  seq: "sequence",
  tp: "tp (tensor parallel)",
  pp: "pp (pipeline)",
  cp: "cp (context parallel)",
  ep: "ep (expert parallel)",
  etp: "tp inside experts",
  dp: "data-parallel replicas",
  sp: "sequence parallelism",
  shard: "data-parallel sharding",
  shard_degree: "ranks that share the states",
  global_batch: "batch",
  micro_batch: "micro batch",
  recompute: "recomputation",
  recompute_layers: "layers that are recomputed",
  precision: "precision",
  gradient_dtype: "gradients in",
  schedule: "pipeline schedule",
  virtual_stages: "virtual stages a rank",
  balanced_stages: "stages balanced with embedding and head",
  overlap_gradients: "gradients move beside backward",
  overlap_parameters: "weights are gathered ahead",
  overlap_tp: "tp traffic overlaps GEMMs",
  async_tp: "async tp",
  overlap_pp: "pipeline sends overlap",
  overlap_ep: "expert traffic overlaps",
  dispatcher: "exchange of tokens",
  fused_loss: "fused loss",
  cp_kind: "kind of context parallelism",
  order: "order of ranks",
  framework: "framework",
  kernels: "kernels",
  attention: "attention",
};

/** A key of the address in words: "layout.tp" is "tp (tensor parallel)". */
export const keyWords = (key) => {
  const name = key.split(".").at(-1);
  return KEYS[name] ?? name.replaceAll("_", " ");
};

const SHARDS = { ddp: "DDP (nothing is sharded)", zero1: "ZeRO-1", zero2: "ZeRO-2", fsdp: "FSDP (ZeRO-3)" };
const RECOMPUTED = {
  none: "nothing",
  selective: "attention scores only",
  operations: "every second GEMM",
  full: "whole layers",
};
const SWITCHED = {
  sp: ["sequence parallelism", "no sequence parallelism"],
  overlap_gradients: ["gradients move beside the backward pass", "gradients move after the backward pass"],
  overlap_parameters: ["gather weights one layer ahead", "gather weights only when they are needed"],
  overlap_tp: ["overlap tp traffic with GEMMs", "do not overlap tp traffic"],
  async_tp: ["async tp", "no async tp"],
  overlap_pp: ["overlap pipeline sends", "do not overlap pipeline sends"],
  overlap_ep: ["overlap expert traffic", "do not overlap expert traffic"],
  balanced_stages: ["count embedding and head when stages are cut", "cut stages by layers alone"],
  fused_loss: ["fused loss", "no fused loss"],
};
const OFFLOADED = { offload_optimizer: "optimizer", offload_gradients: "gradients", offload_weights: "weights" };
const CHANGED = {
  shard: (value) => `shard with ${SHARDS[value] ?? value}`,
  recompute: (value) => `recompute ${RECOMPUTED[value] ?? value}`,
  shard_degree: (value) => `share the states among ${value} ranks only (HSDP)`,
  virtual_stages: (value) => (value > 1 ? `interleave ${value} virtual stages a rank` : "do not interleave stages"),
  schedule: (value) => `pipeline schedule ${value}`,
  dispatcher: (value) => `exchange tokens with ${value}`,
  order: (value) => `place ranks in the order ${[value].flat().join(", ")}`,
  cp_kind: (value) => `context parallelism by ${value}`,
  global_batch: (value) => `batch ${value}`,
};

/** One field of a layout with its value, in words. */
export function fieldWords(key, value) {
  if (key in SWITCHED) return SWITCHED[key][value === true || value === "true" ? 0 : 1];
  const [name, more] = keyWords(key).split(" (");
  return CHANGED[key]?.(value) ?? `${name} ${value}${more ? ` (${more}` : ""}`;
}

/** A proposal in words: what it changes first. */
export function changeWords({ layout, nodes }) {
  if (nodes) return `${nodes} nodes`;
  const moved = Object.keys(layout).flatMap((key) => OFFLOADED[key] ?? []);
  if (moved.length) return `${moved.join(", ")} on the host`;
  const [key] = Object.keys(layout);
  return fieldWords(key, layout[key]);
}

/** What a click on a proposal states from then on, and what is chosen otherwise because of it. */
export function pinned({ layout, nodes, also }) {
  const stated = Object.entries(layout).filter(([, value]) => value !== null);
  const set = [nodes && `nodes ${nodes}`, ...stated.map(([key, value]) => `${key} ${value}`)].filter(Boolean);
  const then = Object.entries(also ?? {}).map(([key, value]) => fieldWords(key, value));
  return `pins ${set.join(", ")}${then.length ? `; then chosen: ${then.join(", ")}` : ""}`;
}
