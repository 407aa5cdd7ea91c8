"""`syncwall predict` for what a step of the run is part of: reinforcement learning, islands.

Holds `section_asked` (which of them a call means) and `predict_around`, which answers.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from syncwall.cli.output import OutputFlags
from syncwall.cli.run_flags import RunFlags
from syncwall.problems import InputError

if TYPE_CHECKING:
    from syncwall.answer import Prediction
    from syncwall.describe import Run
    from syncwall.public import Answer

_SAMPLED = ("global_batch", "document")
"""Flags of a layout that the samples of a step of reinforcement learning say."""


@dataclass(frozen=True)
class Asked:
    """A section, and what the call says beside it."""

    key: str
    """`rl` or `islands`."""
    flag: str | None
    """What --rl or --islands says; None if only the run file has the section."""


def section_asked(
    whose: RunFlags, flags: dict[str, str | None], others: dict[str, Any]
) -> Asked | None:
    """The section that the call means, by `flags` or in its run file; None if there is none.

    InputError if two are meant, or if one of the `others`, flags by name, is given beside it.
    """
    from syncwall.describe.sections import stated_sections

    given = [key for key, text in flags.items() if text is not None]
    meant = list(dict.fromkeys([*given, *stated_sections(whose.file)]))
    if not meant:
        return None
    if len(meant) > 1:
        raise InputError.of(f"{' and '.join(meant)} are two questions: leave out one of them")
    found = Asked(meant[0], flags[meant[0]])
    beside = [name for name, value in others.items() if value]
    if found.key == "rl":
        beside += [name for name in _SAMPLED if f"layout.{name}" in whose.stated]
    if beside:
        word = beside[0].replace("_", "-")
        raise InputError.of(f"--{word} is not for a step with `{found.key}`: leave it out")
    return found


def predict_around(
    asked: Asked, whose: RunFlags, out: OutputFlags, timeline: Path | None, *, assumptions: bool
) -> int:
    """Predict what was asked; 1 if it does not fit."""
    from syncwall.catalogue import searched_first

    out.check()
    with searched_first(whose.catalogue):
        run = whose.run(sections=True)
        if run.measured is not None:
            raise InputError.of(f"`measured` is not for a step with `{asked.key}`: leave it out")
        answered = _rl if asked.key == "rl" else _islands
        step, found = answered(run, whose, asked.flag)
        if timeline is not None:
            step.timeline().save(timeline)
        out.write(found, assumptions=assumptions)
    return 0 if step.fits else 1


def _rl(run: "Run", whose: RunFlags, flag: str | None) -> "tuple[Prediction, Answer]":
    """An update, and the step around it."""
    from syncwall.answer.rl_step import predict_rl
    from syncwall.describe.rl import RlStep
    from syncwall.describe.sections import section_with

    rl, known = section_with(RlStep, whose.file, flag), whose.measured()
    found = predict_rl(run, rl, measured=known, site=whose.site(known))
    return found.update, found


def _islands(run: "Run", whose: RunFlags, flag: str | None) -> "tuple[Prediction, Answer]":
    """A step of one island, and all of them."""
    from syncwall.answer.islands import predict_islands
    from syncwall.describe.islands import Islands
    from syncwall.describe.sections import section_with

    islands, known = section_with(Islands, whose.file, flag), whose.measured()
    found = predict_islands(run, islands, measured=known, site=whose.site(known))
    return found.inner, found
