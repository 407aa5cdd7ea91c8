"""Words for flows that share links.

Holds `contention_words`, `degraded_words`, `drawn_words` and `flows_words`.
"""

from typing import Final

from syncwall import units
from syncwall.answer.contention import UNPROVEN, Contention
from syncwall.cost.contended_network import AxisFlows
from syncwall.describe import Layout
from syncwall.plan.fabric.slowed import Degraded, TakenOut
from syncwall.show.numbers import duration, percent, plural
from syncwall.units import Dimension
from syncwall.work.groups import groups

_PATTERNS: Final = {
    "ring": "rings", "tree": "trees", "all-to-all": "all-to-all", "transfer": "transfers"
}  # fmt: skip


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
        "long as over NICs alone" if found.busiest else "no link is busier than the NICs"
    )  # fmt: skip
    free = f"{more} more than on free links ({duration(found.free_s)})"
    return (f"{spread}: {free}; {how}", f"{blame}; {UNPROVEN}")


def drawn_words(fabric: str, routing: str, qps: int, draws: int, seed: int) -> str:
    """The fabric, how flows find their way, and what was drawn; 0 `draws` where nothing is."""
    pairs = f", {qps} queue pairs a connection" if qps > 1 else ""
    drawn = (
        f"{plural(draws, 'draw')} of the hashes, seed {seed}" if draws
        else f"nothing is drawn, seed {seed} unused"
    )  # fmt: skip
    return f"{fabric}, {routing} routing{pairs}, {drawn}"


def flows_words(flows: AxisFlows, layout: Layout) -> str:
    """Who sends: "dp rings of 128 ranks"."""
    same = (
        axis for axis, group in groups(layout).items()
        if (group.ranks, max(1, int(group.stride))) == (flows.ranks, flows.stride)
    )  # fmt: skip
    axis = next(same, "")
    return f"{axis} {_PATTERNS[flows.pattern]} of {flows.ranks:,} ranks".strip()


def degraded_words(found: Degraded) -> tuple[str, ...]:
    """What slow parts cost the step, the link to blame, and whether taking them out pays."""
    before, after = found.before, found.after
    slow = ", ".join(
        f"{name} at {units.format(rate, Dimension.BYTES_PER_S, unit='Gb/s')}"
        for name, rate in found.parts.items()
    )
    steps = (
        f"step {_spread(before.p50_s, before.p90_s)} before, {_spread(after.p50_s, after.p90_s)}"
    )
    draws = after.draws if after.hashed else 0
    how = drawn_words(after.fabric, after.routing, after.qps, draws, after.seed)
    link = f"busiest link {after.busiest}" if after.busiest else "no link is busier than the NICs"
    return (
        f"{slow}: {steps} after, {percent(found.slower, 1)} slower; {link}",
        _out_words(found, found.taken_out),
        f"{how}; {UNPROVEN}",
    )


def _spread(p50_s: float, p90_s: float) -> str:
    wide = p90_s > p50_s * (1.0 + 1e-9)
    return f"{duration(p50_s)}{f' (P90 {duration(p90_s)})' if wide else ''}"


def _out_words(found: Degraded, out: TakenOut) -> str:
    taken = f"draining {plural(out.nodes, 'node')}" if out.nodes else "taking the cables out"
    if out.step_s is None or out.spare_s is None:
        return f"{taken} leaves nothing that could run"
    verdict = "pays" if found.pays else "does not pay"
    if not out.nodes:
        return f"{taken} {verdict}: step {duration(out.step_s)} over the ways that are left"
    left = out.replicas - out.replicas_lost
    sum_ = f"{duration(out.spare_s)} x {out.replicas} / {left} replicas = {duration(out.step_s)}"
    return f"{taken} {verdict}: {sum_}; {duration(out.spare_s)} with spare nodes"
