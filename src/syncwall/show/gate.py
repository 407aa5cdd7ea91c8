"""What a change of a training program does: verdict, growth on every size, where, memory."""

from collections.abc import Iterator
from math import isfinite
from typing import Final

from syncwall.answer.gate import Gate, Growth, Outcome
from syncwall.cause import LEAST_SHARE
from syncwall.show.blocks import Block, Lines, Verdict, View, sentence, table
from syncwall.show.numbers import duration, gigabytes, minus, percent, plural, signed, signed_percent

_MOST: Final = 8
_MARKS: Final = {Outcome.WITHIN: "", Outcome.ABOVE: " above", Outcome.NOT_JUDGED: " ?"}


def reason(found: Gate) -> str:
    """Why the outcome is what it is, in a sentence."""
    if found.obstacle or found.outcome is Outcome.NOT_JUDGED:
        doubts = (f"{_grew(one)} ± {percent(one.unknown, 1)}" for one in found.of(Outcome.NOT_JUDGED))
        return found.obstacle or f"not all of the step is known, nor alike in both: {', '.join(doubts)}"
    said = [f"{_grew(one)}, limit {percent(one.limit or 0.0, 1)}" for one in found.of(Outcome.ABOVE)]
    said += [found.after.verdict.text] * (found.before.fits and not found.after.fits)
    if not said and any(one.share for one in found.growths):
        said = [_grew(max(found.growths, key=lambda growth: growth.share))]
    return "; ".join(said) or ("nothing grew" if found.calls else "nothing differs")


def _grew(one: Growth) -> str:
    return f"{one.quantity} {_share(one)} on {plural(one.gpus, 'GPU')}"


def _share(one: Growth) -> str:
    return signed_percent(one.share) if isfinite(one.share) else "from nothing"


def gate_view(found: Gate) -> View:
    """Verdict, what grew, where the time and the memory went, what was not priced."""
    before, after = found.before.program, found.after.program
    about = f"{after.command or 'a program'} on {after.world_size:,} × {found.after.cluster.name}"
    verdict = sentence(f"{found.outcome}: {found.reason}").removesuffix(".")
    kept = [(one, one.module or "outside of modules") for one in found.calls[:_MOST]]
    calls = [
        (one.kind, str(one.cause), where, one.source, one.what, signed(one.seconds)) for one, where in kept
    ]
    held = [(one.kind, one.module, minus(f"{one.bytes / 1e9:+,.1f} GB")) for one in found.memory[:_MOST]]
    changed = ("what changed", "ledger", "module", "line", "how", "seconds")
    blocks: list[Block] = [
        Verdict((verdict,), about),
        *table(("GPUs", "", "before", "after", "change", "limit"), _growths(found), words=2, ends_in_words=1),
        *table(("where the time goes", "before", "after", "change"), _ledger(found)),
        *table(changed, calls, texts=changed[:-1]),
        *table(("memory", "module", "change"), held, words=2),
    ]
    if found.not_priced:
        blocks.append(Lines("Not on", found.not_priced))
    if found.times != 1.0:
        said = (
            f"a step has {after.samples:,.0f} samples instead of {before.samples:,.0f}: times are of as many"
        )
        blocks.append(Lines("Note", (said,)))
    return View(f"syncwall: {found.outcome}", tuple(blocks))


def _growths(found: Gate) -> Iterator[tuple[str, ...]]:
    for one in found.growths:
        text = gigabytes if one.quantity == "memory" else duration
        limit = "" if one.limit is None else percent(one.limit, 1) + _MARKS[one.outcome]
        yield f"{one.gpus:,}", one.quantity, text(one.before), text(one.after), _share(one), limit


def _ledger(found: Gate) -> Iterator[tuple[str, ...]]:
    """Lines of the ledger that differ, on as many GPUs as the programs were recorded for."""
    before, after = found.before.ledger, found.after.ledger
    pairs = {cause: (float(before[cause]), float(after[cause]) * found.times) for cause in (*before, *after)}
    for cause, (old, new) in sorted(pairs.items(), key=lambda pair: -abs(pair[1][1] - pair[1][0])):
        if not found.obstacle and abs(new - old) >= LEAST_SHARE * found.before.step_s:
            yield str(cause), duration(old), duration(new), signed(new - old)
