"""What may fill in the fields that a description leaves open.

Holds `choices` (the values that each open field may take) and `candidates` (every admissible layout
with them). Used for a user's run and for a published one alike.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, Final

from syncwall.describe import Layout, Model
from syncwall.describe.base import is_open
from syncwall.describe.layout import Schedule, Shard
from syncwall.describe.rules import broken_rules, can_share
from syncwall.describe.software import Framework

CHOSEN: Final = ("shard", "micro_batch", "virtual_stages", "recompute")
"""Fields that are chosen by time and memory; a schedule, if open, follows from `virtual_stages`."""
_MICRO_BATCHES: Final = (1, 2, 4)
_OF_IMAGES: Final = (8, 16, 32, 64, 128)
"""More of them where a sequence is an image, of a few hundred tokens, or another sample."""


def choices(
    model: Model,
    layout: Layout,
    open_fields: Sequence[str],
    framework: Framework,
    *,
    usual: bool = True,
) -> dict[str, list[Any]]:
    """The values that each open field could have, the plainest first.

    What is `usual` for the framework is its only value, unless every value is asked for.
    """
    found: dict[str, list[Any]] = {}
    if "shard" in open_fields:
        found["shard"] = _shards(model, layout, framework)
    if "micro_batch" in open_fields:
        found["micro_batch"] = _micro_batches(model, layout, framework, usual)
    if "virtual_stages" in open_fields and layout.pp > 1:
        found["virtual_stages"] = _chunks(model, layout, framework, usual)
    if "recompute" in open_fields:
        known = framework.recompute if usual else None
        found["recompute"] = sorted(framework.recomputes) if known is None else [known]
    return found


def _shards(model: Model, layout: Layout, framework: Framework) -> list[Shard]:
    kinds = sorted(set(framework.shards))
    if not can_share(model, layout):
        return kinds[:1]
    if framework.shards_hold_cp and layout.cp > 1:
        kinds = [kind for kind in kinds if kind != Shard.DDP]
    if layout.pp > 1 and Shard.ZERO1 in kinds:  # there, ZeRO-2 is ZeRO-1
        kinds = [kind for kind in kinds if kind != Shard.ZERO2]
    return kinds


def _micro_batches(model: Model, layout: Layout, framework: Framework, usual: bool) -> list[int]:
    if usual and framework.microbatches_as_stages and layout.pp > 1:
        replica = int(layout.global_batch or 1) // int(layout.dp or 1)
        return [max(replica // int(layout.pp), 1)]
    return [*_MICRO_BATCHES, *(_OF_IMAGES if model.patches or model.stack else ())]


def _chunks(model: Model, layout: Layout, framework: Framework, usual: bool) -> list[int]:
    """Numbers of virtual stages that cut the layers of a rank evenly."""
    if layout.schedule not in (None, Schedule.INTERLEAVED):
        return [1]
    each = max(model.layers // int(layout.pp), 1)
    counts = [count for count in range(1, each + 1) if each % count == 0]
    if layout.schedule == Schedule.INTERLEAVED:
        counts = [count for count in counts if count > 1] or [2]
        known = framework.virtual_stages if usual else None
        return [known] if known else counts
    return counts


def candidates(
    model: Model, layout: Layout, seq: int, gpus: int, values: dict[str, list[Any]]
) -> tuple[list[Layout], list[str]]:
    """Every admissible layout with the `values` of its open fields, and why others are not."""
    found: list[Layout] = []
    reasons: list[str] = []
    for chosen in product(*values.values()):
        update = dict(zip(values, chosen, strict=True))
        if "virtual_stages" in update and is_open(layout, "schedule"):
            interleaved = update["virtual_stages"] > 1
            update["schedule"] = Schedule.INTERLEAVED if interleaved else Schedule.ONE_F_ONE_B
        one = layout.model_copy(update=update)
        broken = broken_rules(model, one.plain(), seq, gpus)
        reasons += [reason for _, reason in broken]
        found += [] if broken else [one]
    return found, reasons
