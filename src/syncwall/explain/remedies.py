"""What would help against a verdict, each priced by the predictor.

Holds `REMEDIES`, `remedies` and `kind_of`. A remedy is the described run with one thing changed, so
`predict` says of it what is said here; what the predictor cannot see (a loader, a sick host) has
none.
"""

from collections.abc import Iterator
from typing import Final

from syncwall.answer.improvements import WORTH, Improvement, changed
from syncwall.answer.prediction import Prediction
from syncwall.answer.suspects import SUSPECTS
from syncwall.catalogue import searched_first
from syncwall.cause import Cause
from syncwall.describe import Run
from syncwall.describe.layout import Shard
from syncwall.explain.traces.rank_ledger import RankLedger
from syncwall.explain.traces.ranks import RankVerdictKind

_OVERLAP: Final = (
    "overlap_gradients", "overlap_parameters", "overlap_tp", "async_tp", "overlap_ep", "overlap_pp",
)  # fmt: skip
REMEDIES: Final[dict[RankVerdictKind, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "host-bound": (("micro_batch", "recompute"), ("graphs", "kernels", "experts-loop")),
    "small collectives": (("micro_batch", "shard"), ("buckets",)),
    "no overlap": (_OVERLAP, ()),
    "communication-bound": ((*_OVERLAP, "tp", "shard", "shard_degree", "micro_batch"), ()),
    "uneven stages": (("balanced_stages", "virtual_stages"), ()),
}
"""By verdict, fields of the layout to change and keys of `answer.suspects` to change back."""
_BUCKET_BYTES: Final = float(25 * 2**20)
"""What DistributedDataParallel takes where nothing is said."""
_MOST: Final = 3


def remedies(prediction: Prediction, kind: RankVerdictKind) -> tuple[Improvement, ...]:
    """The changes that gain most against this verdict and still fit, one a field."""
    fields, keys = REMEDIES.get(kind, ((), ()))
    if not fields:
        return ()
    with searched_first(prediction.pricing.catalogue):
        tried = [*changed(prediction, fields), *_software(prediction, keys)]
    worth = [one for one in tried if one.fits and one.gained_s > WORTH * prediction.step_s]
    best: dict[str, Improvement] = {}
    for one in sorted(worth, key=lambda one: -one.gained_s):
        best.setdefault(one.change.split()[0], one)
    return tuple(best.values())[:_MOST]


def kind_of(ledger: RankLedger) -> RankVerdictKind:
    """The verdict on a rank alone that has remedies; "clean" if there is none."""
    wait, _ = ledger.largest_wait
    if wait is None or not ledger.on_device:
        return "clean"
    return (
        "host-bound"
        if wait is Cause.IDLE_HOST
        else ("communication-bound" if wait.is_exposed else "clean")
    )


def _software(prediction: Prediction, keys: tuple[str, ...]) -> Iterator[Improvement]:
    """Settings of the software, and the size of buckets."""
    for words, run in _variants(prediction.run, keys):
        other = prediction.again(run)
        yield Improvement(
            words, run, prediction.step_s - other.step_s,
            other.memory_bytes - prediction.memory_bytes, {}, other.fits,
        )  # fmt: skip


def _variants(run: Run, keys: tuple[str, ...]) -> Iterator[tuple[str, Run]]:
    for key in keys:
        if key != "buckets":
            yield from SUSPECTS[key](run)
        elif run.layout.shard == Shard.DDP:
            yield "bucket_bytes 25 MiB", run.changed(bucket_bytes=_BUCKET_BYTES)
