"""Flags as other programs call them: what people write before they know ours.

Holds `ours`. Names are those of Megatron-LM, torchtitan, DeepSpeed, accelerate, the Trainer of
transformers and torchrun, and what is said for short.
"""

from typing import Final

from syncwall.describe.settings.megatron import COUNTS, SWITCHES

_WORDS: Final = {
    "--global-batch": "batch-size train-batch-size gbs bs gradient-accumulation-steps grad-accum",
    "--micro-batch": "mbs per-device-train-batch-size train-micro-batch-size-per-gpu "
    "local-batch-size batch-size-per-gpu",
    "--seq": "seq-length seq-len sequence-length max-seq-len max-seq-length max-length "
    "context-length context",
    "--tp": "tensor-parallel tensor-parallel-size tensor-parallel-degree",
    "--pp": "pipeline pipeline-parallel pipeline-parallel-size pipeline-parallel-degree",
    "--cp": "context-parallel context-parallel-degree",
    "--ep": "expert-parallel expert-parallel-size expert-parallel-degree moe-parallel",
    "--dp": "data-parallel data-parallel-size data-parallel-degree",
    "--sp": "sequence-parallelism",
    "--gpus": "gpu num-gpus n-gpus ngpus world-size num-processes",
    "--nodes": "num-nodes n-nodes nnodes num-machines",
    "--gpus-per-node": "nproc-per-node procs-per-node",
    "--precision": "dtype bf16 fp16 fp32 fp8 fp4 mixed-precision amp torch-dtype",
    "--shard": "zero zero-stage fsdp fsdp2 hsdp ddp sharding use-distributed-optimizer "
    "data-parallel-sharding-strategy",
    "--recompute": "activation-checkpointing activation-checkpoint gradient-checkpointing "
    "recompute-granularity recompute-activations checkpointing ac",
    "--virtual-stages": "interleave interleaved virtual-pipeline "
    "virtual-pipeline-model-parallel-size num-virtual-stages-per-pipeline-rank "
    "num-layers-per-virtual-pipeline-stage vpp",
    "--schedule": "pipeline-schedule pipeline-parallel-schedule",
    "--cluster": "machine hardware device gpu-type gpu-name instance system accelerator",
    "--model": "model-name arch architecture hf-model model-name-or-path",
    "--lora": "lora-rank lora-r qlora peft",
    "--offload-optimizer": "cpu-offload offload optimizer-cpu-offload",
    "--from": "config configuration config-file settings-file deepspeed-config",
    "--compiled": "torch-compile inductor",
    "--tokens": "train-tokens num-tokens total-tokens",
    "--steps": "train-iters train-steps max-steps iterations",
    "--calibration": "nccl-tests measured-links",
}


def ours(word: str) -> str | None:
    """Our flag for what elsewhere is called `word` ("--micro-batch-size"); None if unknown."""
    plain = word.lower().replace("_", "-").lstrip("-")
    for flag, words in _WORDS.items():
        if plain in words.split():
            return flag
    named = {name: field for field, name in {**COUNTS, **SWITCHES}.items()}
    field = named.get(f"--{plain}")
    return f"--{field.replace('_', '-')}" if field else None
