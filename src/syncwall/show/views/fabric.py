"""Fabrics side by side, and the proposed one in detail.

Holds `fabric_view`.
"""

from collections.abc import Iterator
from functools import partial

from syncwall import units
from syncwall.plan.fabric.answer import FabricAnswer
from syncwall.plan.fabric.sized import Sized, losses
from syncwall.show.blocks import Block, Figure, Lines, Verdict, View, table
from syncwall.show.draw.fabric import fabric_drawing
from syncwall.show.numbers import money, percent, plural
from syncwall.show.words import fabric as words
from syncwall.show.words.layout import run_words
from syncwall.units import Dimension

_SPARE = ("core", "spine", "leaf", "hops", "power", "transceivers")
"""What narrow screens leave out, that of least worth first."""


def fabric_view(answer: FabricAnswer) -> View:
    """Verdict, all kinds in a table, and the chosen one in detail."""
    about = run_words(answer.prediction.run) if answer.prediction else ""
    refused = (one for one in answer.found.values() if not one.possible)
    reasons = tuple(f"{one.kind}: {words.why_not(one)}" for one in refused)
    blocks = [
        Verdict((words.verdict(answer),), about),
        *_table(answer),
        *([Lines("Left out", reasons)] if reasons else []),
        *(_details(answer, answer.chosen) if answer.chosen else []),
        Lines("Assumed", (words.assumed(answer),), is_quiet=True),
    ]
    return View(f"A fabric for {plural(answer.gpus, 'GPU')}", tuple(blocks))


def _table(answer: FabricAnswer) -> list[Block]:
    """A row for each kind that is possible."""
    routing = next((found.routing for found in answer.steps.values()), "")
    head = ("kind", "switches", "leaf", "spine", "core", "cables", "transceivers", "bisection",
            "hops", "cost", "power", f"step, {routing}", "slower")  # fmt: skip
    rows = [tuple(_cells(answer, one)) for one in answer.possible]
    strong = frozenset(n for n, one in enumerate(answer.possible) if one is answer.chosen)
    return table(head, rows, spare=_SPARE, strong=strong)


def _cells(answer: FabricAnswer, one: Sized) -> Iterator[str]:
    yield f"{one.kind}{' (proposed)' * (one is answer.chosen)}"
    yield f"{one.total_switches:,}"
    yield from (f"{one.switches[tier]:,}" if one.switches.get(tier) else ""
                for tier in ("leaf", "spine", "core"))  # fmt: skip
    yield from (f"{one.total_cables:,}", f"{one.optics(answer.copper):,}")
    yield from (percent(one.bisection_share), f"{one.hops}")
    usd, watts = (r.bill(one, answer.copper).total for r in (answer.prices, answer.powers))
    yield money(usd) if answer.prices.stated else ""
    yield units.format(watts, Dimension.WATTS, digits=4) if answer.powers.stated else ""
    effect = answer.effects.get(one.kind)
    yield words.step_time(effect.step_s) if effect else ""
    yield percent(effect.slower, 1) if effect else ""


def _details(answer: FabricAnswer, one: Sized) -> Iterator[Block]:
    cables = " · ".join(
        f"{count:,} {name}{' copper' * (name in answer.copper)}"
        for name, count in one.cables.items() if count
    )  # fmt: skip
    rate = units.format(one.bisection_bytes_per_s, Dimension.BYTES_PER_S, digits=4)
    caption = "the proposed fabric; of many equal parts only some are drawn"
    yield Figure(partial(fabric_drawing, one), caption)
    yield Lines("Cables", (cables,))
    yield Lines("Bisection", (f"{rate} one way between two halves of the nodes",))
    yield Lines("Wiring", (words.wiring(one),))
    yield Lines("If broken", tuple(map(words.loss, losses(one))))
    if one.wiring.growth:
        yield Lines("Growth", (words.growth(answer, one),))
    if answer.prices.stated:
        yield Lines("Cost", (words.bill(answer, one),))
    if answer.free_s is not None:
        yield Lines("Effect", (words.effect(answer, one),))
    if answer.degraded is not None:
        yield Lines("Degraded", words.degraded_words(answer.degraded))
