"""What limits a run, in one word, one number and one line.

Holds `VerdictKind`, `Verdict`, `too_large` and `limit_of`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from syncwall.cause import Cause
from syncwall.describe import Device
from syncwall.timeline.ledger import Ledger
from syncwall.work.memory import usable_bytes

BOTTLENECK: Final = 0.15
"""Share of a step from which one kind of waiting is called a bottleneck. A choice of words, not a
fit: below it the step would become at most 1.18 times faster if that waiting went away."""


class VerdictKind(StrEnum):
    """What limits a run."""

    DOES_NOT_FIT = "does not fit"
    COMPUTE = "compute"
    COMMUNICATION = "communication"
    PIPELINE = "pipeline"
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What limits a run."""

    kind: VerdictKind
    share: float
    """Of the step, spent on what `kind` names; if it does not fit, memory needed over what is there
    to use."""
    text: str
    """The same in one line."""

    def __str__(self) -> str:
        return self.text


_BOTTLENECKS: Final = {
    VerdictKind.COMMUNICATION: "comms is a bottleneck: {:.0%} of the step waits for the network",
    VerdictKind.PIPELINE: "pipeline bubble is a bottleneck: {:.0%} of the step",
    VerdictKind.HOST: "the host is a bottleneck: {:.0%} of the step",
}


def too_large(need_bytes: float, device: Device) -> Verdict:
    """The verdict on a run that needs more memory on a GPU than can be used of it."""
    usable, size = usable_bytes(device), device.memory.size_bytes
    text = (
        f"does not fit: {need_bytes / 1e9:.0f} GB are needed, {usable / 1e9:.0f} of "
        f"{size / 1e9:.0f} GB can be used"
    )
    return Verdict(VerdictKind.DOES_NOT_FIT, need_bytes / usable, text)


def limit_of(ledger: Ledger) -> Verdict:
    """The verdict on a step that fits: the largest kind of waiting, or computation."""
    step_s = float(ledger.total)
    copies = float(ledger[Cause.EXPOSED_OFFLOAD])  # over the link to the host, not the network
    on_host = float(ledger[Cause.HOST] + ledger[Cause.HOST_OPTIMIZER]) + copies
    waits = {
        VerdictKind.COMMUNICATION: (float(ledger.exposed_s) - copies) / step_s,
        VerdictKind.PIPELINE: float(ledger[Cause.BUBBLE]) / step_s,
        VerdictKind.HOST: on_host / step_s,
    }
    kind = max(waits, key=lambda one: waits[one])
    if waits[kind] >= BOTTLENECK:
        return Verdict(kind, waits[kind], _BOTTLENECKS[kind].format(waits[kind]))
    working = sum(float(s) for cause, s in ledger.items() if not cause.is_wait) / step_s
    waiting = waits[VerdictKind.COMMUNICATION]
    text = f"compute-bound: {waiting:.0%} of the step waits for communication"
    return Verdict(VerdictKind.COMPUTE, working, text)
