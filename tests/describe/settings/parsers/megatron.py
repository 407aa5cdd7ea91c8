"""Megatron-Core's own validation of printed arguments, without a GPU.

Reads a list of cases as JSON, writes what is wrong with each. Arguments become fields of
`TransformerConfig` as `core_transformer_config_from_args` of Megatron-LM's `training/arguments.py` makes
them; `Refused` are checks of that file, which is in no package, in its own words.
"""

import argparse
import json
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

warnings.simplefilter("ignore")

import torch  # noqa: E402
from megatron.core import utils  # noqa: E402
from megatron.core.transformer.transformer_config import (  # noqa: E402
    MLATransformerConfig,
    TransformerConfig,
)
from packaging.version import Version  # noqa: E402

utils._te_version = Version("2.9.0")  # that of a machine with GPUs; settings do not choose it

SAME = [
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "context_parallel_size",
    "expert_model_parallel_size",
    "expert_tensor_parallel_size",
    "sequence_parallel",
    "overlap_p2p_comm",
    "tp_comm_overlap",
    "cpu_offloading_num_layers",
    "overlap_moe_expert_parallel_comm",
    "moe_token_dispatcher_type",
    "moe_flex_dispatcher_backend",
    "cp_comm_type",
    "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split",
    "pipeline_model_parallel_layout",
    "recompute_granularity",
    "recompute_method",
    "recompute_num_layers",
    "recompute_modules",
    "bf16",
    "fp16",
    "fp8_recipe",
    "first_last_layers_bf16",
    "num_layers_at_start_in_bf16",
    "num_layers_at_end_in_bf16",
    "virtual_pipeline_model_parallel_size",
]
"""Names that arguments and configuration share, as far as we print them."""
WORDS = [
    "moe_token_dispatcher_type",
    "moe_flex_dispatcher_backend",
    "cp_comm_type",
    "data_parallel_sharding_strategy",
    "pipeline_model_parallel_layout",
    "recompute_granularity",
    "recompute_method",
    "fp8_format",
    "fp8_recipe",
    "fp4_format",
    "optimizer",
    "exp_avg_dtype",
    "exp_avg_sq_dtype",
]
NUMBERS = [
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "context_parallel_size",
    "expert_model_parallel_size",
    "expert_tensor_parallel_size",
    "micro_batch_size",
    "global_batch_size",
    "seq_length",
    "num_distributed_optimizer_instances",
    "num_virtual_stages_per_pipeline_rank",
    "ddp_bucket_size",
    "decoder_first_pipeline_num_layers",
    "decoder_last_pipeline_num_layers",
    "num_layers_at_start_in_bf16",
    "num_layers_at_end_in_bf16",
    "recompute_num_layers",
    "cpu_offloading_num_layers",
]
SWITCHES = [
    "sequence_parallel",
    "overlap_grad_reduce",
    "overlap_param_gather",
    "tp_comm_overlap",
    "bf16",
    "fp16",
    "grad_reduce_in_bf16",
    "overlap_moe_expert_parallel_comm",
    "use_tp_pp_dp_mapping",
    "use_megatron_fsdp",
    "use_distributed_optimizer",
    "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split",
    "first_last_layers_bf16",
    "accumulate_allreduce_grads_in_fp32",
    "recompute_activations",
    "use_precision_aware_optimizer",
    "optimizer_cpu_offload",
]
ONE = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")


def parser() -> argparse.ArgumentParser:
    """The arguments that we print, with Megatron-LM's types and defaults."""
    found = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    for name in WORDS:
        found.add_argument(f"--{name.replace('_', '-')}")
    for name in NUMBERS:
        found.add_argument(f"--{name.replace('_', '-')}", type=int)
    for name in SWITCHES:
        found.add_argument(f"--{name.replace('_', '-')}", action="store_true")
    found.add_argument("--recompute-modules", nargs="*")
    found.add_argument("--no-overlap-p2p-communication", action="store_false", dest="overlap_p2p_comm")
    defaults = dict.fromkeys(ONE, 1) | {
        "expert_model_parallel_size": 1,
        "cpu_offloading_num_layers": 0,
        "num_layers_at_start_in_bf16": 1,
        "num_layers_at_end_in_bf16": 1,
        "optimizer": "adam",
        "fp8_recipe": "delayed",
        "moe_token_dispatcher_type": "allgather",
        "num_distributed_optimizer_instances": 1,
    }
    found.set_defaults(**defaults)
    return found


def transformer_fields(args: Any, model: dict[str, Any]) -> dict[str, Any]:
    """As `core_transformer_config_from_args` makes them."""
    found = {name: getattr(args, name) for name in SAME if getattr(args, name, None) is not None}
    found["num_layers_in_first_pipeline_stage"] = args.decoder_first_pipeline_num_layers
    found["num_layers_in_last_pipeline_stage"] = args.decoder_last_pipeline_num_layers
    found["cpu_offloading"] = args.cpu_offloading_num_layers > 0
    found["params_dtype"] = {(True, False): torch.bfloat16, (False, True): torch.float16}.get(
        (args.bf16, args.fp16), torch.float32
    )
    found["pipeline_dtype"] = found["params_dtype"]
    found["fp8"], found["fp4"] = args.fp8_format, args.fp4_format
    found["batch_p2p_comm"] = not args.overlap_p2p_comm
    return found | model


Check = tuple[bool, str]


def refused(args: Any, model: dict[str, Any], gpus: int) -> Iterator[Check]:
    """Checks of `validate_args`: a condition that must hold, and what it says."""
    ranks = args.tensor_model_parallel_size * args.pipeline_model_parallel_size * args.context_parallel_size
    yield gpus % ranks == 0, "world size is not divisible by total_model_size"
    replicas = gpus // ranks
    yield args.global_batch_size % (args.micro_batch_size * replicas) == 0, "global batch size"
    ways = (args.num_virtual_stages_per_pipeline_rank, args.pipeline_model_parallel_layout)
    yield None in ways, "No more than one of the following arguments can be set at the same time"
    virtual = args.virtual_pipeline_model_parallel_size
    ends = (args.decoder_first_pipeline_num_layers, args.decoder_last_pipeline_num_layers)
    counted = args.account_for_embedding_in_pipeline_split + args.account_for_loss_in_pipeline_split
    if ways == (None, None) and ends == (None, None):
        even = (model["num_layers"] + counted) % args.pipeline_model_parallel_size == 0
        yield even, "Number of layers should be divisible by the pipeline-model-parallel size"
    least = 1 if args.overlap_p2p_comm else 2  # interleaved
    yield virtual is None or args.pipeline_model_parallel_size > least, "pipeline-model-parallel size"
    sharded = args.use_distributed_optimizer or args.use_megatron_fsdp
    yield sharded or not args.overlap_param_gather, "--overlap-param-gather needs distributed optimizer"
    yield args.overlap_grad_reduce or not args.overlap_param_gather, "Must use with --overlap-grad-reduce"
    yield args.sequence_parallel or not args.tp_comm_overlap, "--tp-comm-overlap without sequence parallelism"
    split = args.tensor_model_parallel_size > 1 and model.get("num_moe_experts")
    yield (
        args.sequence_parallel or not split,
        "When using expert parallelism and tensor parallelism, sequence",
    )
    yield not (args.use_megatron_fsdp and args.optimizer == "muon"), "Emerging optimizer and Megatron-FSDP"
    aware = args.use_precision_aware_optimizer
    yield not aware or (args.optimizer == "adam" and sharded), "--use-precision-aware-optimizer"
    yield aware or not args.optimizer_cpu_offload, "--optimizer-cpu-offload needs precision-aware optimizer"
    copies = args.num_distributed_optimizer_instances
    yield copies == 1 or args.use_distributed_optimizer, "--num-distributed-optimizer-instances"
    yield replicas * args.context_parallel_size % copies == 0, "--num-distributed-optimizer-instances"
    parallel = args.context_parallel_size
    yield (
        parallel == 1 or args.seq_length % (2 * parallel) == 0,
        "seq-length: multiple of 2 * context-parallel",
    )


def problem(text: str, model: dict[str, Any], gpus: int) -> str | None:
    """What Megatron says against the arguments; None if nothing."""
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    args = parser().parse_args(shlex.split(" ".join(line.rstrip("\\") for line in lines)))
    if args.recompute_activations:
        args.recompute_granularity = "selective"
    virtual = args.num_virtual_stages_per_pipeline_rank
    stages = args.pipeline_model_parallel_layout
    if stages is not None:
        virtual = len(re.split(r"\|", stages)) // args.pipeline_model_parallel_size
    args.virtual_pipeline_model_parallel_size = virtual if virtual and virtual > 1 else None
    args.overlap_p2p_comm = args.overlap_p2p_comm and args.virtual_pipeline_model_parallel_size is not None
    for holds, said in refused(args, model, gpus):
        if not holds:
            return said
    latent = model.get("multi_latent_attention", False)
    kind: Callable[..., Any] = MLATransformerConfig if latent else TransformerConfig
    try:
        kind(**transformer_fields(args, model))
    except (AssertionError, ValueError, TypeError, NotImplementedError) as error:
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    json.dump([problem(**case) for case in json.load(sys.stdin)], sys.stdout)
