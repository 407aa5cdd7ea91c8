"""Sentences about what else a machine did while it measured.

Holds `load_words` and `busy_words`.
"""

from collections.abc import Sequence

from syncwall.measure.load import MOST_OTHERS, MOST_STEAL, MachineLoad
from syncwall.show.numbers import percent, plural

Loads = Sequence[MachineLoad | None]


def load_words(loads: Loads) -> str:
    """The load of each of the measurements, or of the busiest of several."""
    known = [load for load in loads if load is not None]
    if not known:
        return "load was not recorded"
    most = "at most " if len(known) > 1 else ""
    average = max(load.before.average for load in known)
    steal = max(sample.steal for load in known for sample in load.samples)
    others = max(sample.others for load in known for sample in load.samples)
    return (
        f"machine load {most}{average:.1f} before, steal {most}{percent(steal)}, "
        f"other processes {most}{percent(others)} of the cores"
    )


def busy_words(loads: Loads) -> str:
    """Why little can be concluded; empty for a quiet machine, and for one of which nobody knows."""
    known = [load for load in loads if load is not None]
    busy = [load for load in known if any(sample.is_busy for sample in load.samples)]
    if not busy:
        return ""
    samples = [sample for load in busy for sample in load.samples]
    others, steal = max(one.others for one in samples), max(one.steal for one in samples)
    reasons = [f"other processes used up to {percent(others)} of the cores"] * (
        others > MOST_OTHERS
    )
    reasons += [f"up to {percent(steal)} of their time was stolen"] * (steal > MOST_STEAL)
    where = f" in {len(busy)} of {plural(len(known), 'record')}" if len(known) > 1 else ""
    return f"the machine was busy{where}: {' and '.join(reasons)}"
