"""What the Predict page shows of a prediction, as markup for its places.

Holds `prediction_parts`, `proposal_parts` and `beside_parts`.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from syncwall.answer import Prediction
from syncwall.answer.improvements import Improvement
from syncwall.answer.settled import Chosen
from syncwall.cause import LEAST_SHARE
from syncwall.job.job_comparison import Beside
from syncwall.show.blocks import ledger
from syncwall.show.compare import doubt, verdict
from syncwall.show.field_words import field_words
from syncwall.show.layout import run_words
from syncwall.show.numbers import (
    duration,
    gigabytes,
    many,
    percent,
    signed,
    signed_percent,
)
from syncwall.show.prediction import assumed, evidence, why
from syncwall.show.write.parts import (
    Markup,
    Part,
    bar,
    button,
    items,
    markup,
    proposal,
    proposals,
    quiet,
    swatch,
    tag,
    term,
    tile,
)

_MEMORY: Final = {
    "weights": "gemm",
    "gradients": "exposed-dp",
    "optimizer": "optimizer",
    "activations": "attention",
    "logits": "output-layer",
    "unsharded weights": "exposed-tp",
    "unreduced gradients": "exposed-ep",
    "CUDA and NCCL": "contention",
}
"""Colours of what fills the memory."""
_OFFLOADED: Final = {
    "offload_optimizer": "optimizer",
    "offload_gradients": "gradients",
    "offload_weights": "weights",
}
_TILES: Final = {
    "step": "step_s",
    "tokens": "tokens_per_s_per_gpu",
    "mfu": "mfu",
    "memory": "memory_bytes",
}


def prediction_parts(prediction: Prediction) -> dict[str, Markup]:
    """Tiles, ledger, memory, and what it rests on."""
    run, least_s = prediction.run, LEAST_SHARE * prediction.step_s
    chosen = {way: [one for one in prediction.chosen if one.follows is way] for way in (False, True)}
    waits = "looking for a change that makes it fit …"
    on_host = prediction.host_memory_bytes
    host = f"; {gigabytes(on_host)} on each host" if on_host else ""
    size = gigabytes(run.cluster.device.memory.size_bytes)
    return {
        "what": markup(run_words(run)),
        "why": markup(why(prediction)),
        "remedy": markup(None if prediction.fits else tag("span", waits, class_="quiet")),
        "tiles": _tiles(prediction),
        "ledger": markup(ledger("where the time goes", prediction.ledger, least=least_s)),
        "ledger-about": markup(f"{run.gpus:,} GPUs, {prediction.tokens:,.0f} tokens a step"),
        "memory": _memory(prediction),
        "memory-about": markup(f"{gigabytes(prediction.memory_bytes)} of {size}{host}"),
        "evidence": markup(evidence(prediction)),
        "assumed": items(assumed(prediction)),
        "open": _reasons(chosen[False]),
        "follows": _reasons(chosen[True]),
    }


def _reasons(chosen: Sequence[Chosen]) -> Markup:
    """Fields that nobody stated with their values, those with the same reason together."""
    ordered = sorted(chosen, key=lambda one: [each.why for each in chosen].index(one.why))
    groups: list[Part] = []
    for reason, alike in groupby(ordered, key=lambda one: one.why):
        for place, one in enumerate(alike):
            between = ", " if place else "; " if groups else "Left open: "
            said = f"{one.field} {one.value}"
            groups += [between, tag("span", said, title=reason, data={"chosen": one.field})]
        groups.append(f" ({reason})")
    return markup(groups, "." if groups else "")


def _tiles(prediction: Prediction) -> Markup:
    low, high = prediction.step_interval_s
    step_s, speed, gpus = prediction.step_s, prediction.tokens_per_s_per_gpu, prediction.run.gpus
    memory = prediction.run.cluster.device.memory.size_bytes
    gib = f" ({memory / 2**30:,.0f} GiB)" if memory % 2**30 == 0 else ""
    verdict = ("tight in", "fits")[prediction.has_headroom] if prediction.fits else "too much for"
    room = f"{verdict} {gigabytes(memory)}{gib}"
    doubt = f"80% interval: {duration(low)} to {duration(high)}", _whisker(low, step_s, high)
    exposed_s = prediction.exposed_s
    mfu = f"HFU {percent(prediction.hfu, 1)}; {prediction.step.mfu_convention}"
    return markup(
        tile("step", "Step", duration(step_s), doubt, step_s),
        tile(
            "tokens",
            "Tokens/s/GPU",
            f"{speed:,.0f}",
            f"{many(speed * gpus)} tokens/s in all",
            speed,
        ),
        tile("mfu", "MFU", percent(prediction.mfu, 1), mfu, prediction.mfu),
        tile(
            "waiting",
            "Waits for communication",
            percent(exposed_s / step_s),
            f"{duration(exposed_s)} of each step",
            exposed_s,
        ),
        tile("memory", "Memory", gigabytes(prediction.memory_bytes), room, prediction.memory_bytes),
    )


def _whisker(low: float, middle: float, high: float) -> Markup:
    """The interval as a line."""
    ends = [f"{4 + 192 * value / (high * 1.1):.2f}" for value in (low, middle, high)]
    return tag(
        "svg",
        tag("line", class_="whole", x1=4, x2=196, y1=7, y2=7),
        tag("line", class_="likely", x1=ends[0], x2=ends[2], y1=7, y2=7),
        tag("circle", cx=ends[1], cy=7, r=4),
        class_="interval",
        viewBox="0 0 200 14",
        preserveAspectRatio="none",
        aria_hidden="true",
    )


def _memory(prediction: Prediction) -> Markup:
    """What fills the memory of the fullest GPU, and where it ends if that is too much."""
    parts = {str(cause): float(count) for cause, count in prediction.memory.by_cause().items() if count > 0}
    size = float(prediction.run.cluster.device.memory.size_bytes)
    whole = max(prediction.memory_bytes, size)
    colours = {cause: _MEMORY.get(cause, "other") for cause in parts}
    end = None if prediction.fits else tag("i", data={"left": 100 * size / whole})
    drawn = ((f"{c} {gigabytes(b)}", b, colours[c], False) for c, b in parts.items())
    names = (
        tag(
            "div",
            swatch(colours[cause]),
            term(cause),
            f" {gigabytes(count)}",
            data={"cause": cause, "value": count},
        )
        for cause, count in parts.items()
    )
    return markup(bar(drawn, whole, last=end), tag("div", names, class_="memory-parts"))


def change_words(one: Improvement, layout: Mapping[str, Any], nodes: int | None) -> str:
    """A proposal in words: what it changes first."""
    if nodes:
        return f"{nodes} nodes"
    moved = [_OFFLOADED[key] for key in layout if key in _OFFLOADED]
    if moved:
        return f"{', '.join(moved)} on the host"
    key = next(iter(layout))
    return field_words(key, layout[key])


def proposal_parts(
    prediction: Prediction, found: list[tuple[Improvement, dict[str, Any]]], more: bool
) -> dict[str, Markup]:
    """What to change, and for a run that does not fit what makes it fit; the last is `more`."""
    step_s, fits = prediction.step_s, prediction.fits
    shown = found[:-1] if more and fits and len(found) > 1 else found
    is_none = not any(not one["nodes"] for _, one in (found[:-1] if more else found))
    none = f"No single change of the layout {'helps' if fits else 'makes it fit'}."
    one_by_one = "One change at a time; what you left open stays open."
    made = [_proposal(step_s, fits, *both) for both in shown]
    ways = found if found and found[0][1]["nodes"] else [*found[:1], *found[1:][-1:] * more]
    return {
        "next": markup(
            quiet(none) if is_none else None,
            (quiet(one_by_one), proposals(made)) if made else None,
        ),
        "remedy": markup() if fits else _remedy(step_s, ways),
    }


def _remedy(step_s: float, ways: list[tuple[Improvement, dict[str, Any]]]) -> Markup:
    if not ways:
        none = "No single change, nor 64 times the nodes, nor the memory of hosts makes it fit: "
        return markup(none)
    made: list[Part] = ["It fits "]
    for place, (one, fields) in enumerate(ways):
        said = change_words(one, fields["layout"], fields["nodes"])
        made += [", " if place else "", "on " if fields["nodes"] else "with "]
        text = f"{said}: {duration(step_s - one.gained_s)} a step"
        made.append(button(text, _keys(fields), kind="" if place else "main"))
    return markup(made, ", or ")


def _keys(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A proposal as keys of the address: null where a key leaves it."""
    size = {key: fields[key] for key in ("nodes", "gpus_per_node") if fields[key]}
    return {f"layout.{key}": value for key, value in fields["layout"].items()} | size


def _proposal(step_s: float, fits: bool, one: Improvement, fields: dict[str, Any]) -> Markup:
    layout, nodes = fields["layout"], fields["nodes"]
    stated = [f"{key} {_json(value)}" for key, value in layout.items() if value is not None]
    pins = f"pins {', '.join(([f'nodes {nodes}'] if nodes else []) + stated)}"
    then = ", ".join(field_words(key, value) for key, value in fields["also"].items())
    size = one.memory_bytes
    memory = f"memory {'+' if size >= 0 else '−'}{gigabytes(abs(size))}"
    gain = f"{signed(-one.gained_s)} ({signed_percent(-one.gained_s / step_s, 0)})"
    return proposal(
        change_words(one, layout, nodes),
        gain if fits else f"{duration(step_s - one.gained_s)} a step",
        f"{memory}; {pins}" + (f"; then chosen: {then}" if then else ""),
        _keys(fields),
        gained=one.gained_s,
        is_worse=fits and one.gained_s < 0,
    )


def _json(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def beside_parts(one: Beside, alike: Beside) -> dict[str, Any]:
    """How a run differs from the pinned one: in a sentence, on each tile, and in each cause.

    Tiles and causes are of both runs as they stand there, the sentence is `alike` in what nobody stated.
    """
    pinned, now = one.before.prediction, one.after.prediction
    ratios, exposed_s = one.ratios, now.exposed_s - pinned.exposed_s
    tiles = {name: _on_tile(ratios[key]) for name, key in _TILES.items() if key in ratios}
    tiles["waiting"] = _delta(f"beside A: {signed(exposed_s)}", exposed_s)
    least_s = LEAST_SHARE * max(now.step_s, pinned.step_s)
    listed = {str(c) for c, s in now.ledger.items() if s >= LEAST_SHARE * now.step_s}
    gone = {c: s for c, s in one.ledger_s.items() if c not in listed and abs(s) >= least_s}
    words = [
        (", " if place else "", term(str(cause)), f" {signed(seconds)}")
        for place, (cause, seconds) in enumerate(gone.items())
    ]
    rows = {str(c): _delta(_seconds(s), s, "span") for c, s in one.ledger_s.items()}
    step_s = ratios["step_s"].difference
    return {
        "said": markup(re.sub(r"\bB\b", "this run", verdict(alike)[0])),
        "what": markup(tag("b", "A "), run_words(pinned.run)),
        "doubt": quiet(doubt(alike)),
        "tiles": tiles,
        "rows": rows | {"": _delta(_seconds(step_s), step_s, "span")},
        "gone": tag("p", "Only in A: ", words, class_="delta", data={"only": "A"}) if gone else "",
    }


def _seconds(difference_s: float) -> str:
    return signed(difference_s) if difference_s else "0 s"


def _delta(text: str, value: float, name: str = "div", **more: Any) -> Markup:
    return tag(name, text, **{"class_": "delta", **more}, data={"delta": value or 0})


def _on_tile(ratio: Any) -> Markup:
    change = signed_percent(ratio.value - 1) if ratio.difference else "0%"
    low, high = (signed_percent(bound - 1, 0) for bound in ratio.interval)
    apart = ratio.is_told_apart
    return _delta(
        f"beside A: {change}, {ratio.certainty}",
        ratio.difference,
        class_="delta apart" if apart else "delta",
        title=f"80% interval of the difference: {low} to {high}",
    )
