"""Changes named on the steps of real traces: `python bench/changed_days.py DIR`.

DIR holds profiler traces. Of each with enough steps, every other step is the good day and the rest
the day after: nothing changed. Then a change is laid on the day after as it would act, a quarter of
the step more of one kind of time, and must be named. ResNet-50 traced with 0 and with 4 loader
workers is a real pair.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from syncwall.explain.changes.days import OWN, Day, day_of
from syncwall.explain.changes.parts import Difference, difference
from syncwall.explain.traces.job_traces import explain_traces
from syncwall.problems import InputError

LEAST_STEPS, MORE = 5, 0.25
PAIR = ("kineto_v100_resnet50_workers4.json.gz", "kineto_v100_resnet50_workers0.json.gz")
KINDS = ("compute", "data", "host", "sync", "transfer")


def taken(day: Day, rows: Any) -> Day:
    """Some steps of a day."""
    return replace(
        day, numbers=day.numbers[rows], step_s=day.step_s[rows], own_s=day.own_s[rows],
        wait_s=day.wait_s[rows], transfer_s=day.transfer_s[rows],
    )  # fmt: skip


def longer(day: Day, kind: str) -> Day:
    """A quarter of each step more of one kind of time, with the spread that the step itself has."""
    more = MORE * day.step_s
    found = replace(day, step_s=day.step_s + more)
    if kind == "transfer":
        return replace(found, transfer_s=day.transfer_s + more[:, None])
    own = day.own_s.copy()
    own[:, :, OWN.index(kind)] += more[:, None]
    return replace(found, own_s=own)


def is_named(found: Difference, kind: str) -> bool:
    """True if `kind` is what a verdict names first."""
    return found.is_slower and found.named[:1] != () and found.named[0].kind == kind


def main() -> None:
    parser = argparse.ArgumentParser(description="Changes named on the steps of real traces.")
    parser.add_argument("directory", type=Path, help="profiler traces")
    folder = parser.parse_args().directory
    same, named = [], []
    for path in sorted(folder.glob("*.json.gz")):
        try:
            day = day_of(explain_traces([path]), path.name)
        except InputError:  # another kind of trace
            continue
        if len(day.step_s) < LEAST_STEPS:
            continue
        good, after = (taken(day, np.arange(first, len(day.step_s), 2)) for first in (1, 0))
        same.append((path.name, not difference(after, [good]).is_changed))
        changed = {kind: difference(longer(after, kind), [good]) for kind in KINDS}
        named += [(f"{path.name} {kind}", is_named(x, kind)) for kind, x in changed.items()]
    before, now = (day_of(explain_traces([folder / name]), name) for name in PAIR)
    named.append(("0 instead of 4 loader workers", is_named(difference(now, [before]), "data")))
    for title, cases in (("nothing changed", same), ("changes named", named)):
        print(f"{title}: {sum(right for _, right in cases)} of {len(cases)}")
        for name, right in cases:
            if not right:
                print(f"    not {name}")


if __name__ == "__main__":
    main()
