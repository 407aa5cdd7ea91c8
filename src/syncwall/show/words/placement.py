"""The sentences of a placement.

Holds `verdict`, `fragments`, `basis` and `orders`.
"""

from collections.abc import Sequence

from syncwall.answer.contention import UNPROVEN
from syncwall.plan.placement.answer import PlacementAnswer
from syncwall.show.numbers import plural
from syncwall.show.words.contention import drawn_words

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
        sum(one) for one in zip(
            *((job.given.groups, job.found.groups, job.least_groups) for job in answer.jobs),
            strict=True,
        )
    )  # fmt: skip
    groups = plural(answer.groups.count, "leaf group")
    jobs = f"jobs are in {given} parts as given, {found} as found, {least} at least; {groups}"
    if not answer.free_nodes:
        return f"{jobs}; no free nodes"
    free = f"{answer.given_free_together} as given, {answer.found_free_together} as found"
    return f"{jobs}; of {plural(answer.free_nodes, 'free node')} at most {free} are in one"


def basis(answer: PlacementAnswer) -> str:
    """Routing, draws, seed, busiest links, and what is known of the accuracy."""
    draws = answer.draws if answer.draws > 1 else 0
    how = drawn_words(answer.fabric, answer.routing, answer.qps, draws, answer.seed)
    links = [
        f"busiest link {'as given' if not after else 'as found'} {link}"
        for after, link in enumerate((answer.given_busiest, answer.found_busiest)) if link
    ]  # fmt: skip
    return "; ".join([how, *(links or ["no link is busier than the NICs"]), UNPROVEN])


def orders(answer: PlacementAnswer) -> tuple[str, ...]:
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
