"""Jobs on a fabric as they stand and as they should."""

from collections.abc import Sequence

from syncwall.answer.contention import UNPROVEN
from syncwall.plan.placement.best_placement import JobAt, PlacedJob, PlacementAnswer
from syncwall.show.blocks import Lines, Verdict, View, table
from syncwall.show.contention import drawn_words
from syncwall.show.numbers import duration, plural, signed_percent

_SHOWN = 8
"""Stretches of nodes of a job that a line names."""


def verdict(answer: PlacementAnswer) -> str:
    """What to change, and what it gives."""
    before = f"traffic takes {answer.given_slower:.2f} times as long as over NICs alone"
    if answer.change == "none":
        if answer.given_slower <= 1.0 + 1e-9:
            return "no shared link slows these jobs: leave them as they are"
        return f"nothing better was found: {before}, as given"
    what = "order the ranks anew on the same nodes" if answer.change == "order" else "move jobs"
    return f"{what}: {before} as given, {answer.found_slower:.2f} then"


def fragments(answer: PlacementAnswer) -> str:
    """How scattered jobs and free nodes are."""
    given, found, least = (
        sum(one)
        for one in zip(
            *((job.given.groups, job.found.groups, job.least_groups) for job in answer.jobs),
            strict=True,
        )
    )
    groups = plural(answer.groups.count, "leaf group")
    jobs = f"jobs are in {given} parts as given, {found} as proposed, {least} at least; {groups}"
    if not answer.free_nodes:
        return f"{jobs}; no free nodes"
    free = f"{answer.given_free_together} as given, {answer.found_free_together} as proposed"
    return f"{jobs}; of {plural(answer.free_nodes, 'free node')} at most {free} are in one"


def basis(answer: PlacementAnswer) -> str:
    """Routing, draws, seed, busiest links, and what is known of the accuracy."""
    draws = answer.draws if answer.draws > 1 else 0
    how = drawn_words(answer.fabric, answer.routing, answer.qps, draws, answer.seed)
    links = [
        f"busiest link {'as given' if not after else 'as proposed'} {link}"
        for after, link in enumerate((answer.given_busiest, answer.found_busiest))
        if link
    ]
    return "; ".join([how, *(links or ["no link is busier than the NICs"]), UNPROVEN])


def node_orders(answer: PlacementAnswer) -> tuple[str, ...]:
    """The nodes of each job in the order of ranks."""
    lines = []
    for job in answer.jobs:
        stretches = _stretches(job.found.nodes)
        shown = ", ".join(" to ".join(answer.names(ends)) for ends in stretches[:_SHOWN])
        rest = sum(last - first + 1 for first, *_, last in stretches[_SHOWN:])
        lines.append(f"{job.name}: {shown}" + (f" and {rest} more nodes" if rest else ""))
    return tuple(lines)


def _stretches(nodes: Sequence[int]) -> list[tuple[int, ...]]:
    """First and last of nodes that follow one another, or the one that stands alone."""
    found: list[tuple[int, ...]] = []
    for node in nodes:
        if found and node == found[-1][-1] + 1:
            found[-1] = (found[-1][0], node)
        else:
            found.append((node,))
    return found


_HEAD = (
    "job",
    "nodes",
    "sends",
    "groups",
    "step alone",
    "as given",
    "slower",
    "traffic",
    "P90",
    "as proposed",
    "slower then",
    "traffic then",
    "P90 then",
)


def placement_view(answer: PlacementAnswer) -> View:
    """Verdict, a row for each job, the order of ranks, and what it rests on."""
    rows = [_row(job) for job in answer.jobs]
    blocks = [
        Verdict((verdict(answer),), ""),
        *table(_HEAD, rows, spare=("P90", "P90 then", "sends", "traffic then", "traffic")),
        Lines("Ranks", node_orders(answer)),
        Lines("Fragments", (fragments(answer),)),
        Lines(
            "Assumed",
            (f"traffic: time over NICs alone; all jobs send all the time; {basis(answer)}",),
            is_quiet=True,
        ),
    ]
    return View(f"{plural(len(answer.jobs), 'job')} on one fabric", tuple(blocks))


def _row(job: PlacedJob) -> tuple[str, ...]:
    def cells(at: JobAt) -> tuple[str, ...]:
        slower = signed_percent(at.step_p50_s / job.free_s - 1.0)
        return duration(at.step_p50_s), slower, f"{at.slower_p50:.2f}x", duration(at.step_p90_s)

    groups = f"{job.given.groups} → {job.found.groups}"
    return (
        job.name,
        f"{len(job.found.nodes):,}",
        job.axis,
        groups,
        duration(job.free_s),
        *cells(job.given),
        *cells(job.found),
    )
