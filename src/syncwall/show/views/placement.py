"""Jobs on a fabric as they stand and as they should.

Holds `placement_view`.
"""

from syncwall.plan.placement.answer import JobAt, PlacedJob, PlacementAnswer
from syncwall.show.blocks import Lines, Verdict, View, table
from syncwall.show.numbers import duration, plural
from syncwall.show.words import placement as words

_HEAD = ("job", "nodes", "sends", "groups", "step alone", "as given", "slower", "P90",
         "as found", "slower then", "P90 then")  # fmt: skip


def placement_view(answer: PlacementAnswer) -> View:
    """Verdict, a row for each job, the order of ranks, and what it rests on."""
    rows = [_row(job) for job in answer.jobs]
    blocks = [
        Verdict((words.verdict(answer),), ""),
        *table(_HEAD, rows, spare=("P90", "P90 then", "sends")),
        Lines("Ranks", words.orders(answer)),
        Lines("Fragments", (words.fragments(answer),)),
        Lines("Assumed", (f"all jobs send all the time; {words.basis(answer)}",), is_quiet=True),
    ]
    return View(f"{plural(len(answer.jobs), 'job')} on one fabric", tuple(blocks))


def _row(job: PlacedJob) -> tuple[str, ...]:
    def cells(at: JobAt) -> tuple[str, str, str]:
        return duration(at.step_p50_s), f"{at.slower_p50:.2f}x", duration(at.step_p90_s)

    groups = f"{job.given.groups} → {job.found.groups}"
    return (job.name, f"{len(job.found.nodes):,}", job.axis, groups, duration(job.free_s),
            *cells(job.given), *cells(job.found))  # fmt: skip
