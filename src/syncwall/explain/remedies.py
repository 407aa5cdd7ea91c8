"""What a fault costs, what would explain a gap and what would help, each priced by the
predictor.

A remedy is the described run with one thing changed, so `predict` says of it what is said here;
what the predictor cannot see (a loader, a sick host) has none.

The run is taken as it should be; the log says what of its machine was left idle. Machines are
changed by `answer.pricing`.
"""

from collections.abc import Callable, Iterator
from typing import Final

from syncwall.answer.gap import SUSPECTS, Suspect, gap
from syncwall.answer.improvements import WORTH, Improvement, changed
from syncwall.answer.prediction import Prediction, predict
from syncwall.answer.pricing import with_nics, with_scale_up
from syncwall.catalogue import catalogue_overlay
from syncwall.cause import Cause
from syncwall.describe import Run
from syncwall.describe.layout import Shard
from syncwall.describe.run import MeasuredSpeed
from syncwall.explain.side_by_side import SideBySide, side_by_side
from syncwall.explain.traces.rank import RankLedger
from syncwall.explain.traces.rank_comparison import RankVerdictKind
from syncwall.read.nccl_facts import NcclLog

_OVERLAP: Final = (
    "overlap_gradients",
    "overlap_parameters",
    "overlap_tp",
    "async_tp",
    "overlap_ep",
    "overlap_pp",
)
REMEDIES: Final[dict[RankVerdictKind, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "host-bound": (("micro_batch", "recompute"), ("graphs", "kernels", "experts-loop")),
    "small collectives": (("micro_batch", "shard"), ("buckets",)),
    "no overlap": (_OVERLAP, ()),
    "communication-bound": ((*_OVERLAP, "tp", "shard", "shard_degree", "micro_batch"), ()),
    "uneven stages": (("balanced_stages", "virtual_stages"), ()),
}
"""By verdict, fields of the layout to change and keys of `answer.gap` to change back."""
_BUCKET_BYTES: Final = float(25 * 2**20)
"""What DistributedDataParallel takes where nothing is said."""
_MOST: Final = 3


def remedies(prediction: Prediction, kind: RankVerdictKind) -> tuple[Improvement, ...]:
    """The changes that gain most against this verdict and still fit, one a field."""
    fields, keys = REMEDIES.get(kind, ((), ()))
    if not fields:
        return ()
    with catalogue_overlay(prediction.pricing.catalogue):
        tried = [*changed(prediction, fields), *_software(prediction, keys)]
    worth = [one for one in tried if one.fits and one.gained_s > WORTH * prediction.step_s]
    best: dict[str, Improvement] = {}
    for one in sorted(worth, key=lambda one: -one.gained_s):
        best.setdefault(one.change.split()[0], one)
    return tuple(best.values())[:_MOST]


def remedy_kind(ledger: RankLedger) -> RankVerdictKind:
    """The verdict on a rank alone that has remedies; "clean" if there is none."""
    wait, _ = ledger.largest_wait
    if wait is None or not ledger.on_device:
        return "clean"
    return (
        "host-bound" if wait is Cause.IDLE_HOST else ("communication-bound" if wait.is_exposed else "clean")
    )


def _software(prediction: Prediction, keys: tuple[str, ...]) -> Iterator[Improvement]:
    """Settings of the software, and the size of buckets."""
    for words, run in _variants(prediction.run, keys):
        other = prediction.again(run)
        yield Improvement(
            words,
            run,
            prediction.step_s - other.step_s,
            other.memory_bytes - prediction.memory_bytes,
            {},
            other.has_headroom,
        )


def _variants(run: Run, keys: tuple[str, ...]) -> Iterator[tuple[str, Run]]:
    for key in keys:
        if key != "buckets":
            yield from SUSPECTS[key](run)
        elif run.layout.shard == Shard.DDP:
            yield "bucket_bytes 25 MiB", run.changed(bucket_bytes=_BUCKET_BYTES)


def suspects_of(predicted: Prediction, measured: SideBySide) -> tuple[Suspect, ...]:
    """The likeliest first; none if the two steps are as far apart as is usual."""
    if measured.second_s <= 0:
        return ()
    found = gap(predicted, MeasuredSpeed(step_s=measured.second_s))
    if found.is_usual:
        return ()
    where = _largest(measured)
    return tuple(
        one
        for one in found.suspects
        if one.ledger is not None and _largest(side_by_side(predicted.ledger, one.ledger)) == where
    )


def _largest(beside: SideBySide) -> str | None:
    """The cause that changes most the way the step does."""
    same_way = [one for one in beside.gaps if one.gap_s * beside.gap_s > 0]
    return max(same_way, key=lambda one: abs(one.gap_s)).cause if same_way else None


def slowdown(run: Run | None, changed: Run | None) -> float | None:
    """Predicted step of `changed` over that of `run`; None if one of them is not known."""
    if run is None or changed is None:
        return None
    return predict(changed).step_s / predict(run).step_s


def price_for(run: Run) -> Callable[[str, NcclLog], float | None]:
    """Slowdown by key of the finding: socket, rails, p2p-off; None for what is not modelled."""

    def price(key: str, log: NcclLog) -> float | None:
        changed: Run | None = None
        if key == "socket":
            changed = with_nics(run, transport="tcp")
        elif key == "rails" and log.nics and run.cluster.node.nics is not None:
            kept = run.cluster.node.nics.count * len(log.nics_used) // len(log.nics)
            changed = with_nics(run, count=max(kept, 1))
        elif key == "p2p-off" and not any(name.startswith("P2P") for name in log.transports):
            changed = with_scale_up(run, 0.0)
        return slowdown(run, changed)

    return price
