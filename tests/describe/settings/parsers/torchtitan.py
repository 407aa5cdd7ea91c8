"""torchtitan's own validation of a printed job file, without a GPU.

Reads a list of cases as JSON, writes what is wrong with each. Release 0.2.2, the last that reads TOML, takes
the file as it is; of 0.3.0, whose jobs are written in Python, keys become fields of its configurations. Both
say whether the mesh and the batch add up; 0.3.0 also cuts the pipeline and builds PyTorch's schedule.
"""

import dataclasses
import json
import logging
import sys
import tomllib
import warnings
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

warnings.simplefilter("ignore")
PACKAGE = find_spec("torchtitan")
assert PACKAGE is not None
IS_TOML = (Path(PACKAGE.origin or "").parent / "config" / "job_config.py").exists()
if IS_TOML:  # it imports kernels in Triton, which the CPU build of PyTorch comes without
    sys.modules["torchtitan.components.quantization"] = MagicMock()

import tyro  # noqa: E402
from torchtitan import config  # noqa: E402
from torchtitan.distributed.parallel_dims import ParallelDims  # noqa: E402

logging.disable(logging.WARNING)
RENAMED = {"parallelism.enable_async_tensor_parallel": "compile.enable_async_tensor_parallel"}
ELSEWHERE = {  # part of the model's own configuration, or of no configuration any more
    "parallelism.context_parallel_rotate_method",
    "parallelism.expert_tensor_parallel_degree",
    "parallelism.expert_parallel_comm_backend",
    "parallelism.pipeline_parallel_expert_parallel_overlap",
}
SECTIONS = {"training": "TrainingConfig", "parallelism": "ParallelismConfig", "compile": "CompileConfig"}
OTHER_SECTIONS = {"model", "activation_checkpoint", "quantize"}


def job(text: str) -> Any:
    """The configuration with `training`, `parallelism` and `compile`."""
    if IS_TOML:
        return config.ConfigManager()._dict_to_dataclass(config.JobConfig, tomllib.loads(text))
    found: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for section, keys in tomllib.loads(text).items():
        for key, value in keys.items() if section not in OTHER_SECTIONS else ():
            path = RENAMED.get(f"{section}.{key}", f"{section}.{key}")
            if path not in ELSEWHERE:
                found[path.split(".")[0]][key] = value
    made = {name: _checked(SECTIONS[name], tuple(fields.items())) for name, fields in found.items()}
    return SimpleNamespace(**made)


@cache
def _checked(name: str, fields: tuple[tuple[str, Any], ...]) -> Any:
    """A configuration, its types checked as on a command line."""
    kind = getattr(config, name)
    unknown = {key for key, _ in fields} - {one.name for one in dataclasses.fields(kind)}
    if unknown:
        raise ValueError(f"{name} has no {unknown}")
    words = [word for key, it in fields for word in _words(key, it)]
    return tyro.cli(kind, args=words, default=kind())


def _words(key: str, value: Any) -> list[str]:
    name = key.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [f"--{name}", str(value)]


def check(text: str, model: dict[str, Any], gpus: int) -> None:
    """Raise what torchtitan raises."""
    found = job(text)
    stated, training = found.parallelism, found.training
    degrees = {
        "dp_replicate": stated.data_parallel_replicate_degree,
        "dp_shard": stated.data_parallel_shard_degree,
        "cp": stated.context_parallel_degree,
        "tp": stated.tensor_parallel_degree,
        "pp": stated.pipeline_parallel_degree,
        "ep": stated.expert_parallel_degree,
    }
    more = {"etp": stated.expert_tensor_parallel_degree} if IS_TOML else {}
    mesh = ParallelDims(**degrees, **more, world_size=gpus)
    replicas = mesh.dp_replicate * mesh.dp_shard
    whole = training.global_batch_size % (training.local_batch_size * replicas) == 0
    assert whole, "global batch size must be multiple of local batch size times data-parallel degree"
    divisor = mesh.tp * (2 * mesh.cp if mesh.cp > 1 else 1)
    assert training.seq_len % divisor == 0, "Training sequence length must be divisible"
    assert mesh.dp_shard * mesh.cp * mesh.tp % mesh.ep == 0, "dp_shard * cp * tp == efsdp * ep"
    if mesh.pp > 1 and not IS_TOML:
        _pipeline(mesh, found, model["layers"])


def _pipeline(mesh: Any, found: Any, layers: int) -> None:
    from torchtitan.distributed import pipeline_parallel as titan

    described = SimpleNamespace(layers=[None] * layers)
    count, *weights = titan._get_pipeline_metadata(mesh, found.parallelism, described)
    assert len(titan._generate_llm_fqn_per_model_part(count, *weights)) == count
    name = found.parallelism.pipeline_parallel_schedule
    ids = titan._get_pp_rank_to_stage_indices_mapping(0, mesh.pp, name, count)
    _scheduled(
        name,
        mesh.pp,
        tuple(_stage(one, count, mesh.pp) for one in ids),
        found.training.local_batch_size,
        found.parallelism.pipeline_parallel_microbatch_size,
    )


@cache
def _scheduled(name: str, pp: int, stages: tuple[Any, ...], batch: int, micro: int) -> None:
    """Build PyTorch's schedule for the first rank, as it orders the work of all of them."""
    from torchtitan.distributed import pipeline_parallel as titan

    stated = config.ParallelismConfig(
        pipeline_parallel_schedule=name, pipeline_parallel_degree=pp, pipeline_parallel_microbatch_size=micro
    )
    titan._build_pipeline_schedule(
        parallelism=stated, local_batch_size=batch, stages=list(stages), loss_fn=lambda *_: None
    )


@cache
def _stage(index: int, count: int, ranks: int, rank: int = 0) -> Any:
    """As much of a stage as schedules look at."""
    return MagicMock(
        stage_index=index,
        num_stages=count,
        group_rank=rank,
        group_size=ranks,
        is_first=index == 0,
        is_last=index == count - 1,
        has_backward=True,
        submod=SimpleNamespace(),
        group=None,
        device="cpu",
        stage_index_to_group_rank=None,
    )


def problem(**case: Any) -> str | None:
    """What torchtitan says against a job file; None if nothing."""
    try:
        check(**case)
    except (AssertionError, ValueError, TypeError, KeyError, AttributeError, SystemExit) as error:
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    found = [problem(**case) for case in json.load(sys.stdin)]
    print(json.dumps(found))
