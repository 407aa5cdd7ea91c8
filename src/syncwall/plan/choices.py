"""What can be chosen in questions to `plan`: words only, so that nothing else has to be loaded.

Holds `Objective`, `SEARCHED` and its parts, `Scaling`, `FabricKind` and `KINDS`.
"""

from enum import StrEnum
from typing import Final, Literal, get_args

Objective = Literal["fastest", "cheapest", "smallest"]
"""What the best layout is best at."""

MEMORY_FREE: Final = ("overlap_pp", "overlap_tp", "overlap_parameters", "overlap_gradients")
"""Switches that memory does not depend on."""
SWITCHES: Final = (*MEMORY_FREE, "balanced_stages", "sp")
"""Fields that are on or off."""
SEARCHED: Final = (
    *SWITCHES,
    "recompute",
    "recompute_layers",
    "virtual_stages",
    "schedule",
    "shard",
    "shard_degree",
    "tp",
    "pp",
    "cp",
    "ep",
    "etp",
    "micro_batch",
    "dispatcher",
    "overlap_ep",
)
"""Fields that a search may choose; layouts of equal time are told apart in this order."""


class Scaling(StrEnum):
    """What stays when GPUs are added."""

    STRONG = "strong"
    """The global batch."""
    WEAK = "weak"
    """The batch of a replica."""


FabricKind = Literal["rail-optimised", "fat-tree-2", "fat-tree-3", "dragonfly", "rail-only"]
KINDS: Final[tuple[FabricKind, ...]] = get_args(FabricKind)
"""Every kind; of two that need equally many switches the one named first is proposed."""
