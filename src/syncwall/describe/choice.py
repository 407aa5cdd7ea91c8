"""Options that are words to people and small numbers to arrays; what fields and keys mean.

Read when somebody asks (help, schemas), not when the package is imported.

Names are those of Megatron-LM, torchtitan, DeepSpeed, accelerate, the Trainer of transformers and
torchrun, and what is said for short.
"""

import ast
import inspect
import sys
from enum import IntEnum, StrEnum
from functools import cache
from typing import Any, Final

from pydantic import GetCoreSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

from syncwall.problems import did_you_mean


class Choice(IntEnum):
    """An option written as a word in files and stored as an integer, so that arrays can hold it.

    A second member with the value of the first is another word for the same thing.
    """

    def __repr__(self) -> str:
        return repr(self.text)

    @property
    def text(self) -> str:
        """The word for this option in files and on the command line."""
        return _text(self.name)

    @classmethod
    def words(cls) -> list[str]:
        """Every accepted word."""
        return [_text(name) for name in cls.__members__]

    @classmethod
    def read(cls, value: Any) -> "Choice":
        """The option that `value` names (or already is)."""
        if isinstance(value, cls):
            return value
        for name, member in cls.__members__.items():
            if isinstance(value, str) and _text(name) == value.lower().replace("_", "-"):
                return member
        hint = did_you_mean(str(value), cls.words()) or f"; known: {', '.join(cls.words())}"
        message = f'unknown {_spoken(cls.__name__)} "{value}"{hint}'
        raise PydanticCustomError("syncwall", "{message}", {"message": message})

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.read,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda c: c.text),
        )


def _text(name: str) -> str:
    return name.lower().replace("_", "-").replace("one-f-one-b", "1f1b")


def _spoken(name: str) -> str:
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()


def text_of(value: Any) -> str:
    """The value of a field as a run file and a flag write it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(value)}]" if isinstance(value, tuple) else str(getattr(value, "text", value))


class Dtype(StrEnum):
    """A number format."""

    FP64 = "fp64"
    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    MXFP8 = "mxfp8"
    FP6 = "fp6"
    FP4 = "fp4"
    NVFP4 = "nvfp4"
    INT8 = "int8"

    def __repr__(self) -> str:
        return repr(self.value)

    @property
    def size_bytes(self) -> float:
        """Bytes of one element, without scaling factors (blocks of MX and NV formats share one)."""
        return {"64": 8.0, "32": 4.0, "16": 2.0, "p8": 1.0, "t8": 1.0, "p6": 0.75, "p4": 0.5}[self.value[-2:]]


@cache
def documented(described: type) -> dict[str, str]:
    """The text under each field of `described`, on one line; fields without one are left out."""
    found: dict[str, str] = {}
    for base in reversed(described.__mro__):
        if base.__module__.startswith("syncwall."):
            found |= _classes(base.__module__).get(base.__name__, {})
    return found


@cache
def _classes(module: str) -> dict[str, dict[str, str]]:
    """The texts of each class of a module."""
    body = ast.parse(inspect.getsource(sys.modules[module])).body
    return {one.name: _under_fields(one) for one in body if isinstance(one, ast.ClassDef)}


def _under_fields(body: ast.ClassDef) -> dict[str, str]:
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match below:
                case ast.Expr(ast.Constant(str(text))):
                    found[field.target.id] = " ".join(text.split())
    return found


WORDS: Final = {
    "global_batch": "batch-size global-batch-size train-batch-size gbs bs "
    "gradient-accumulation-steps grad-accum",
    "micro_batch": "mbs micro-batch-size per-device-train-batch-size "
    "train-micro-batch-size-per-gpu local-batch-size batch-size-per-gpu",
    "seq": "seq-length seq-len sequence-length max-seq-len max-seq-length max-length context-length context",
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
    "nic_rate": "rate nic-speed link-rate network-rate",
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
    "lora": "peft",
    "offload_optimizer": "cpu-offload offload optimizer-cpu-offload",
    "from": "config configuration config-file settings-file deepspeed-config",
    "compiled": "inductor",
    "tokens": "train-tokens num-tokens total-tokens",
    "steps": "train-iters train-steps max-steps iterations",
    "calibration": "nccl-tests measured-links",
}
"""By our key; flags are called as keys are."""

_KERNELS: Final = {"true": "fused", "false": "eager"}
TRANSLATED: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "compile": ("kernels", _KERNELS),
    "torch-compile": ("kernels", _KERNELS),
    "qlora": ("lora", {"true": "{rank: 16, weights: nf4}", "": "{rank: %s, weights: nf4}"}),
    "lora-rank": ("lora", {"": "%s"}),
    "lora-r": ("lora", {"": "%s"}),
}
"""Flags of others that are taken as they are: our key, and our words for theirs (empty: any other)."""


def translated(word: str, value: str) -> tuple[str, str] | None:
    """Our key and value for a flag of others ("--compile", "false"); None if it is none of them."""
    key, words = TRANSLATED.get(word.lower().replace("_", "-").lstrip("-"), ("", {}))
    return (key, words.get(value.lower()) or words.get("", "%s").replace("%s", value)) if key else None


def ours(word: str) -> str | None:
    """Our key for what elsewhere is called `word` ("--micro-batch-size"); None if unknown."""
    plain = word.lower().replace("_", "-").lstrip("-")
    if plain in TRANSLATED:
        return TRANSLATED[plain][0]
    return next((key for key, words in WORDS.items() if plain in words.split()), None)
