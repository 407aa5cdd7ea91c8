"""The end of a watched job: totals of its ranks.

Holds `summed_up`.
"""

from collections import defaultdict
from collections.abc import Iterable

from syncwall.cause import Cause
from syncwall.watch.judged import Judged
from syncwall.watch.live import Summary
from syncwall.watch.watched import WatchedRank


def summed_up(watched: Iterable[WatchedRank], judged: Judged, watched_s: float) -> Summary:
    """Means over all steps of all ranks, and all findings."""
    ranks = list(watched)
    steps = sum(one.steps for one in ranks)
    spent: dict[Cause, float] = defaultdict(float)
    for one in ranks:
        for cause, seconds in one.spent_s.items():
            spent[cause] += seconds
    tokens = [one.tokens for one in ranks if one.tokens is not None]
    training_s = max((one.last_s - one.first_s for one in ranks if one.first_s), default=0.0)
    notes = dict.fromkeys([*(note for one in ranks for note in one.notes), *judged.notes])
    return Summary(
        node=ranks[0].node if ranks else "", ranks=len({one.rank for one in ranks}),
        world=ranks[0].facts["world"] if ranks else 0,
        steps=max((one.steps for one in ranks), default=0),
        step_s=sum(spent.values()) / steps if steps else None,
        seconds={cause: spent[cause] / steps for cause in sorted(spent, key=lambda c: c.order)},
        tokens_per_s=sum(tokens) / training_s if tokens and training_s else None,
        watched_s=watched_s, findings=tuple(judged.history), expected=judged.expected,
        lost_marks=sum(one.lost_marks for one in ranks), notes=tuple(notes),
    )  # fmt: skip
