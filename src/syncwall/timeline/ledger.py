"""Seconds by cause, adding up to the whole.

Holds `Ledger`.
"""

from collections.abc import ItemsView, Iterator, Mapping
from typing import Any

from syncwall.cause import Cause
from syncwall.public import Answer
from syncwall.work.number import is_one, where


class Ledger(Answer, Mapping[Cause, Any]):
    """Seconds by cause; one number each, or an array with one for each layout.

    Of a cause that it does not have, the seconds are 0.
    """

    def __repr__(self) -> str:
        if any(getattr(seconds, "ndim", 0) for seconds in self._seconds.values()):
            return f"<Ledger of many layouts: {', '.join(self)}>"
        parts = sorted(self._seconds.items(), key=lambda pair: -pair[1])
        largest = ", ".join(f"{cause} {seconds:.4g}" for cause, seconds in parts[:4])
        return f"<Ledger {self.total:.4g} s: {largest}{', ...' * (len(parts) > 4)}>"

    def __init__(self, seconds: Mapping[Cause, Any] | None = None) -> None:
        self._seconds: dict[Cause, Any] = dict(seconds.items() if seconds else ())

    def add(self, cause: Cause, seconds: Any) -> None:
        """Put `seconds` on the account of `cause`."""
        before = self._seconds.get(cause)
        self._seconds[cause] = seconds if before is None else before + seconds

    @property
    def total(self) -> Any:
        """All seconds together."""
        return sum(self._seconds.values())

    @property
    def exposed_s(self) -> Any:
        """Seconds that wait for communication."""
        return sum((s for cause, s in self._seconds.items() if cause.is_exposed), 0.0)

    @property
    def waiting(self) -> Any:
        """Share of the whole that waits for communication or for the host."""
        return (self.exposed_s + self[Cause.HOST]) / self.total

    def __getitem__(self, cause: str) -> Any:
        return self._seconds.get(cause, 0.0)  # type: ignore[call-overload]  # a key will do

    def __iter__(self) -> Iterator[Cause]:
        return iter(self._seconds)

    def __len__(self) -> int:
        return len(self._seconds)

    def __contains__(self, cause: object) -> bool:
        return cause in self._seconds

    def items(self) -> ItemsView[Cause, Any]:
        """Causes with their seconds."""
        return self._seconds.items()

    def plus(self, other: "Ledger", times: Any = 1.0) -> "Ledger":
        """This ledger and `other` taken `times` times."""
        total = Ledger(self._seconds)
        total.include(other, times)
        return total

    def include(self, other: "Ledger", times: Any = 1.0) -> None:
        """Put all of `other`, taken `times` times, on its accounts."""
        once = is_one(times)
        for cause, seconds in other.items():
            self.add(cause, seconds if once else seconds * times)

    def where(self, condition: Any, other: "Ledger") -> "Ledger":
        """This ledger where the condition holds, `other` elsewhere."""
        causes = dict.fromkeys([*self, *other])
        return Ledger({c: where(condition, self[c], other[c]) for c in causes})

    def without_zeros(self) -> "Ledger":
        """Only the causes that took any time."""
        return Ledger({c: float(s) for c, s in self._seconds.items() if float(s) > 0})
