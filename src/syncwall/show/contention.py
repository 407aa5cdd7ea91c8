"""Words for flows that share links."""

from typing import Final

from syncwall.answer.contention import UNPROVEN, Contention
from syncwall.cost.contended_network import AxisFlows
from syncwall.describe import Layout
from syncwall.show.numbers import duration, percent, plural
from syncwall.work.block import groups

_PATTERNS: Final = {"ring": "rings", "tree": "trees", "all-to-all": "all-to-all", "transfer": "transfers"}


def contention_words(found: Contention) -> tuple[str, ...]:
    """What sharing does to the step, the link to blame, and what it rests on."""
    draws = found.draws if found.hashed else 0
    how = drawn_words(found.fabric, found.routing, found.qps, draws, found.seed)
    if not found.needed:
        return (f"no shared link slows this run: none of this is needed ({how})",)
    more = percent(found.p50_s / found.free_s - 1.0, 1)
    spread = f"P50 {duration(found.p50_s)}, P90 {duration(found.p90_s)}"
    blame = (
        f"the busiest link is {found.busiest}: traffic over it takes {found.slower:.2f} times as "
        "long as over NICs alone"
        if found.busiest
        else "no link is busier than the NICs"
    )
    free = f"{more} more than on free links ({duration(found.free_s)})"
    return (f"{spread}: {free}; {how}", f"{blame}; {UNPROVEN}")


def drawn_words(fabric: str, routing: str, qps: int, draws: int, seed: int) -> str:
    """The fabric, how flows find their way, and what was drawn; 0 `draws` where nothing is."""
    pairs = f", {qps} queue pairs a connection" if qps > 1 else ""
    drawn = (
        f"{plural(draws, 'draw')} of the hashes, seed {seed}"
        if draws
        else f"nothing is drawn, seed {seed} unused"
    )
    return f"{fabric}, {routing} routing{pairs}, {drawn}"


def flows_words(flows: AxisFlows, layout: Layout) -> str:
    """Who sends: "dp rings of 128 ranks"."""
    same = (
        axis
        for axis, group in groups(layout).items()
        if (group.ranks, max(1, int(group.stride))) == (flows.ranks, flows.stride)
    )
    axis = next(same, "")
    return f"{axis} {_PATTERNS[flows.pattern]} of {flows.ranks:,} ranks".strip()
