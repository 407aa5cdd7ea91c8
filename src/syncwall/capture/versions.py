"""What differs between the versions of PyTorch that a recording knows, in one table.

Holds `OLDEST` and `NEWEST`, `supported_or_advice`, `CHANGES` (what only some versions have) and
`has`, which shims ask. Canaries of `tests/capture` hold the table against the PyTorch that is installed.
"""

from typing import Final

import torch

from syncwall.problems import InputError

Version = tuple[int, int]

OLDEST: Final[Version] = (2, 8)
NEWEST: Final[Version] = (2, 15)
_ALL: Final = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"

_SCHEDULE: Final = "torch.distributed.pipelining.schedules._PipelineSchedule"
_STAGE: Final = "torch.distributed.pipelining.stage.PipelineStage"


def _since(version: Version, owner: str, names: str) -> dict[str, tuple[Version, Version]]:
    return {f"{owner}.{name}": (version, NEWEST) for name in names.split()}


CHANGES: Final[dict[str, tuple[Version, Version]]] = {
    **_since(
        (2, 9),
        "torch.accelerator",
        "empty_cache max_memory_allocated max_memory_reserved memory_allocated memory_reserved memory_stats "
        "reset_accumulated_memory_stats reset_peak_memory_stats",
    ),
    **_since((2, 10), "torch.accelerator", "get_memory_info"),
    **_since((2, 12), "torch.accelerator", "empty_host_cache"),
    **_since((2, 9), "torch.backends.cudnn", "conv"),
    **_since((2, 11), "torch.distributed", "_meta_registrations"),
    **_since((2, 13), "torch.distributed", "all_gather_single reduce_scatter_single"),
    **_since(
        (2, 13),
        "torch.distributed.ProcessGroup",
        "all_gather_single all_gather_single_coalesced all_to_all_single reduce_scatter_single "
        "reduce_scatter_single_coalesced",
    ),
    **_since((2, 14), "torch.distributed.ProcessGroup", "gather_into_tensor gather_single"),
    **_since((2, 10), "torch.distributed.device_mesh.DeviceMesh", "_unflatten"),
    f"{_SCHEDULE}._warmup_p2p": ((2, 12), (2, 14)),
    **_since((2, 15), _SCHEDULE, "_initialize_pipeline_distributed_state"),
    **_since((2, 12), _STAGE, "_recv_meta _send_meta"),
    f"{_STAGE}._shape_inference": (OLDEST, (2, 11)),
}
"""The first and the last version that have a name; all have what is not listed."""


def installed() -> Version:
    """The version that runs."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def has(target: str) -> bool:
    """Whether the installed version has a name of the table; True for any other name."""
    first, last = CHANGES.get(target, (OLDEST, NEWEST))
    return first <= installed() <= last


def supported_or_advice() -> None:
    """InputError if nobody has tried recordings with the installed version."""
    if not OLDEST <= installed() <= NEWEST:
        raise InputError.of(f"PyTorch {torch.__version__} is not supported for recording: install {_ALL}")


def missing(path: str) -> InputError:
    """What to say if a version does not have what the table says it has."""
    return InputError.of(f"PyTorch {torch.__version__} has no {path}: recording was written for {_ALL}")
