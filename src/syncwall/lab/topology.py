"""The hosts and links of a lab, as numbers.

Holds `Topology`: equal hosts, workers on each, adapters at one rate, and the switches between them.
"""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, model_validator

from syncwall import units
from syncwall.describe.base import BytesPerSecond, Description, Positive
from syncwall.units import Dimension

MAX_HOSTS, MAX_WORKERS, MAX_NICS, MAX_UPLINKS = 200, 64, 16, 16
DEFAULT_RATE_BYTES_PER_S = 125e6


class Topology(Description):
    """One lab: every host has the same workers and the same adapters."""

    hosts: Positive
    workers: Positive = 1
    """Processes of a job on each host."""
    rate_bytes_per_s: BytesPerSecond = Field(DEFAULT_RATE_BYTES_PER_S, alias="rate")
    """One adapter, one way."""
    nics: Positive = 1
    """Adapters of each host, eth0 first."""
    serves: tuple[tuple[int, ...], ...] | None = None
    """For each adapter the workers that use it; None deals them out evenly, neighbours together."""
    rails: Positive = 1
    """Separate switches: adapter i of every host hangs on rail i mod `rails`."""
    leaves: Positive = 1
    """Switches of one rail that hosts hang on; above 1, a spine switch joins them."""
    oversubscription: Annotated[float, Field(ge=1, le=1000)] = 1.0
    """Rate of a leaf's hosts over that of its links to the spine."""
    uplinks: Positive = 1
    """Links from a leaf up; above 1, each goes to a spine switch of its own, and the kernel hashes
    every connection to one of them (ECMP)."""

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        for count, most, what in (
            (self.hosts, MAX_HOSTS, "hosts"),
            (self.workers, MAX_WORKERS, "workers on a host"),
            (self.nics, MAX_NICS, "NICs on a host"),
            (self.uplinks, MAX_UPLINKS, "uplinks of a leaf"),
        ):
            if count > most:
                raise ValueError(f"{count} {what} are asked for, a lab has at most {most}")
        if not 1e3 <= self.rate_bytes_per_s <= 50e9:
            raise ValueError("a link of a lab has a rate between 8 kb/s and 400 Gb/s")
        if self.rails not in (1, self.nics):
            raise ValueError(f"`rails` is 1 or the number of NICs, {self.nics}")
        if self.leaves > self.hosts:
            raise ValueError(f"{self.leaves} leaves for {self.hosts} hosts: some would be empty")
        for name in ("oversubscription", "uplinks"):
            if getattr(self, name) > 1 and self.leaves == 1:
                raise ValueError(f"`{name}` needs `leaves` of 2 or more")
        if self.serves is not None:
            self._every_worker_is_served(self.serves)
        return self

    def _every_worker_is_served(self, serves: tuple[tuple[int, ...], ...]) -> None:
        if len(serves) != self.nics:
            raise ValueError(f"`serves` must list the workers of each of {self.nics} NICs")
        if sorted({worker for group in serves for worker in group}) != list(range(self.workers)):
            raise ValueError(f"`serves` must name every worker from 0 to {self.workers - 1}")

    @property
    def world(self) -> int:
        """Processes of a job."""
        return self.hosts * self.workers

    @property
    def place(self) -> str:
        """Hosts x workers of each, such as "2x2"."""
        return f"{self.hosts}x{self.workers}"

    @property
    def link(self) -> str:
        """Rate of a link; empty on one host."""
        return rate_text(self.rate_bytes_per_s) if self.hosts > 1 else ""

    @property
    def label(self) -> str:
        """What people call it, such as "2x2 at 100 Mb/s"."""
        return f"{self.place} at {self.link}" if self.link else self.place

    def host_of(self, rank: int) -> int:
        """The host on which the worker of a rank runs."""
        return rank // self.workers

    def leaf_of(self, host: int) -> int:
        """The leaf that a host hangs on: neighbours together."""
        return host * self.leaves // self.hosts

    @property
    def spines(self) -> int:
        """Switches of one rail that join its leaves."""
        return self.uplinks if self.leaves > 1 else 0

    def nics_of(self, worker: int) -> tuple[int, ...]:
        """The adapters that a worker of a host uses."""
        if self.serves is not None:
            return tuple(nic for nic, group in enumerate(self.serves) if worker in group)
        if self.nics > self.workers:
            first, end = (number * self.nics // self.workers for number in (worker, worker + 1))
            return tuple(range(first, end))
        return (worker * self.nics // self.workers,)

    @property
    def uplink_bytes_per_s(self) -> float:
        """Rate of a link between a leaf and a spine, for the leaf with the most hosts."""
        nics = -(-self.hosts // self.leaves) * (self.nics // self.rails)
        return nics * self.rate_bytes_per_s / self.oversubscription / self.uplinks

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return self.model_dump(mode="json", by_alias=False)


def rate_text(rate_bytes_per_s: float) -> str:
    """A rate as networks state it."""
    unit = "Gb/s" if rate_bytes_per_s >= 125e6 else "Mb/s"
    return units.format(rate_bytes_per_s, Dimension.BYTES_PER_S, digits=6, unit=unit)


def _place(value: Any) -> Any:
    """Read "2x2" as two hosts with two workers each."""
    if isinstance(value, str) and value.count("x") == 1:
        hosts, workers = value.split("x")
        if all(
            side.isascii() and side.isdecimal() and 1 <= len(side) <= 4 for side in (hosts, workers)
        ):
            return int(hosts), int(workers)
    if isinstance(value, tuple):
        return value
    raise ValueError(f'"{value}" is not a place: write hosts x workers per host, for example "2x2"')


Placement = Annotated[tuple[Positive, Positive], BeforeValidator(_place)]
"""Hosts and workers on each."""
