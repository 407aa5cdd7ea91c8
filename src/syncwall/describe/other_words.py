"""Keys and flags as other programs call them: what people write before they know ours.

Holds `ours`. Names are those of Megatron-LM, torchtitan, DeepSpeed, accelerate, the Trainer of
transformers and torchrun, and what is said for short.
"""

from typing import Final

WORDS: Final = {
    "global_batch": "batch-size global-batch-size train-batch-size gbs bs "
    "gradient-accumulation-steps grad-accum",
    "micro_batch": "mbs micro-batch-size per-device-train-batch-size "
    "train-micro-batch-size-per-gpu local-batch-size batch-size-per-gpu",
    "seq": "seq-length seq-len sequence-length max-seq-len max-seq-length max-length "
    "context-length context",
    "tp": "tensor-parallel tensor-parallel-size tensor-model-parallel-size tensor-parallel-degree",
    "pp": "pipeline pipeline-parallel pipeline-parallel-size pipeline-model-parallel-size "
    "pipeline-parallel-degree",
    "cp": "context-parallel context-parallel-size context-parallel-degree",
    "ep": "expert-parallel expert-parallel-size expert-model-parallel-size "
    "expert-parallel-degree moe-parallel",
    "dp": "data-parallel data-parallel-size data-parallel-degree",
    "sp": "sequence-parallel sequence-parallelism",
    "etp": "expert-tensor-parallel expert-tensor-parallel-size",
    "overlap_gradients": "overlap-grad-reduce",
    "overlap_parameters": "overlap-param-gather",
    "overlap_tp": "tp-comm-overlap",
    "overlap_ep": "overlap-moe-expert-parallel-comm",
    "gpus": "gpu num-gpus n-gpus ngpus world-size num-processes",
    "nodes": "num-nodes n-nodes nnodes num-machines",
    "gpus_per_node": "nproc-per-node procs-per-node",
    "precision": "dtype bf16 fp16 fp32 fp8 fp4 mixed-precision amp torch-dtype",
    "shard": "zero zero-stage fsdp fsdp2 hsdp ddp sharding use-distributed-optimizer "
    "data-parallel-sharding-strategy",
    "recompute": "activation-checkpointing activation-checkpoint gradient-checkpointing "
    "recompute-granularity recompute-activations checkpointing ac",
    "virtual_stages": "interleave interleaved virtual-pipeline "
    "virtual-pipeline-model-parallel-size num-virtual-stages-per-pipeline-rank "
    "num-layers-per-virtual-pipeline-stage vpp",
    "schedule": "pipeline-schedule pipeline-parallel-schedule",
    "cluster": "machine hardware device gpu-type gpu-name instance system accelerator",
    "model": "model-name arch architecture hf-model model-name-or-path",
    "lora": "lora-rank lora-r qlora peft",
    "offload_optimizer": "cpu-offload offload optimizer-cpu-offload",
    "from": "config configuration config-file settings-file deepspeed-config",
    "compiled": "torch-compile inductor",
    "tokens": "train-tokens num-tokens total-tokens",
    "steps": "train-iters train-steps max-steps iterations",
    "calibration": "nccl-tests measured-links",
}
"""By our key; flags are called as keys are."""


def ours(word: str) -> str | None:
    """Our key for what elsewhere is called `word` ("--micro-batch-size"); None if unknown."""
    plain = word.lower().replace("_", "-").lstrip("-")
    return next((key for key, words in WORDS.items() if plain in words.split()), None)
