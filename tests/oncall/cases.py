"""On-call cases: an input, its true answer, and where it is from.

Holds `Case`, `cases` and `given`. Cases of `held_out` were written before the rules that they test
had seen them, and no rule is changed for them; the others may be learnt from. Excerpts that other
tests read are cases as well.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.explain.training_logs.samples import excerpts, text_of
from tests.oncall.makers import MAKERS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MEASURED = ROOT.parent / "shared" / "data" / "measured"
"""Larger public files, which not everybody has."""
REFUSED = "refused"
"""Wrong input (exit code 2), beside the four states."""


@dataclass(frozen=True)
class Case:
    """One question of somebody on call, with its true answer."""

    name: str
    origin: str
    """An address, `formula` (drawn), or `made` (written for a trial)."""
    held_out: bool
    states: tuple[str, ...]
    """Those that a right answer may have."""
    is_healthy: bool
    """Nothing is wrong, whether or not it can be judged from what is given."""
    cause: str = ""
    """Of its family: a pattern that cause or headline must have."""
    part: str = ""
    """Rank, host, device or step: a pattern that the headline must have."""
    says: tuple[str, ...] = ()
    """What must be on the screen."""
    cluster: str | None = None
    input: tuple[tuple[str, Any], ...] = ()
    """`text`, `make` or `files`, and `against` as one of these."""

    @property
    def is_public(self) -> bool:
        return self.origin.startswith("https://")

    @property
    def is_here(self) -> bool:
        """False if it needs files that are not in the repository, and not beside it."""
        asked = [what.get("measured", []) for _, what in self.input if isinstance(what, dict)]
        return all((MEASURED / name).exists() for names in asked for name in names)


def _case(record: dict[str, Any], *, held_out: bool) -> Case:
    states = record["state"] if isinstance(record["state"], list) else [record["state"]]
    text = record.get("text")
    given_ = {"text": text} if text else {k: record[k] for k in ("make", "files", "measured") if k in record}
    input_ = [("input", given_)]
    if "against" in record:
        before = record["against"]
        is_files = "files" in before or "measured" in before
        input_.append(("against", before if is_files else {"make": before}))
    return Case(
        name=record.get("name") or record["origin"].removeprefix("https://github.com/"),
        origin=record["origin"],
        held_out=held_out,
        states=tuple(states),
        is_healthy=record.get("healthy", "healthy" in states),
        cause=record.get("cause", ""),
        part=record.get("part", ""),
        says=tuple(record.get("says", ())),
        cluster=record.get("cluster"),
        input=tuple(input_),
    )


def _pasted() -> Iterator[Case]:
    for path in sorted((ROOT / "tests" / "explain" / "pasted").glob("*.yaml")):
        for record in yaml.safe_load(path.read_text()):
            cause = re.escape(record["cause"]) if record["cause"] else ""
            yield _case(record | {"origin": record["source"], "cause": cause}, held_out=False)


def _training_logs() -> Iterator[Case]:
    for one in excerpts():
        thread, _, number = one["thread"].partition("#")
        said = one["expect"]
        yield _case(
            {
                "origin": f"https://github.com/{thread}/issues/{number}",
                "state": said["state"],
                "text": text_of(one),
                "says": said.get("finds", ()),
            },
            held_out=False,
        )


@cache
def cases() -> tuple[Case, ...]:
    """All of them; those that are kept apart last."""
    found = [*_pasted(), *_training_logs()]
    for path in sorted(HERE.glob("*.yaml")):
        found += [_case(one, held_out=False) for one in yaml.safe_load(path.read_text())]
    for path in sorted((HERE / "held_out").glob("*.yaml")):
        found += [_case(one, held_out=True) for one in yaml.safe_load(path.read_text())]
    return tuple(found)


def given(case: Case, folder: Path) -> dict[str, list[Path]]:
    """Files of each side, written into `folder` where they are not there yet."""
    found = {}
    for side, what in case.input:
        inside = folder / side
        inside.mkdir()
        if "text" in what:
            (inside / "pasted").write_text(what["text"], newline="")
            found[side] = [inside / "pasted"]
        elif "make" in what:
            ((name, how),) = what["make"].items()
            found[side] = [MAKERS[name](inside, **how)]
        else:
            here = [ROOT / name for name in what.get("files", ())]
            found[side] = here + [MEASURED / name for name in what.get("measured", ())]
    return found
