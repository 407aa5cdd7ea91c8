"""An experiment as a file: what is asked, on which hosts and links, and what runs there.

Holds `Experiment`, `LabJob` and `read_experiment`. `SlowLink`, `CutLink`, `SlowWorker`,
`SlowLoader`, `Kill` and `Fault`, one of them: what may go wrong in a lab on purpose, as stated in
an experiment. `hosts.py` makes them happen.
"""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from syncwall.describe.base import (
    BytesPerSecond,
    Description,
    NotNegative,
    Positive,
    Seconds,
    faults,
)
from syncwall.describe.reading import validated
from syncwall.documents import read_document
from syncwall.lab.virtual_network import Placement, Topology, rate_text


class SlowLink(Description):
    """A host's links are slower than the others', for the whole job."""

    host: NotNegative
    rate_bytes_per_s: BytesPerSecond = Field(alias="rate")


class CutLink(Description):
    """A host's links go down in the middle of a job, and come back after it."""

    host: NotNegative
    after_s: Seconds = Field(alias="after")
    """Since the job was started."""


class SlowWorker(Description):
    """A worker may run only for a share of the time, for the whole job."""

    rank: NotNegative
    share: Annotated[float, Field(gt=0.02, lt=1)]
    period_s: Seconds = Field(0.05, alias="period")
    """It stands still once in each period."""


class SlowLoader(Description):
    """The data loader of `measure step` takes longer, for the whole job."""

    rank: NotNegative | None = None
    """Whose; everybody's if None."""
    delay_s: Seconds = Field(alias="delay")
    """Longer by this in each step."""


class Kill(Description):
    """A worker is killed in the middle of a job."""

    rank: NotNegative
    after_s: Seconds = Field(alias="after")
    """Since the job was started."""


class Fault(Description):
    """One thing that goes wrong."""

    slow_link: SlowLink | None = None
    cut_link: CutLink | None = None
    slow_worker: SlowWorker | None = None
    slow_loader: SlowLoader | None = None
    kill: Kill | None = None

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        if sum(value is not None for _, value in self) != 1:
            raise ValueError(f"a fault is one of {', '.join(type(self).model_fields)}")
        if self.slow_link and not 1e3 <= self.slow_link.rate_bytes_per_s <= 50e9:
            raise ValueError("a slow link has a rate between 8 kb/s and 400 Gb/s")
        if self.slow_worker and not 0.001 <= self.slow_worker.period_s <= 10:
            raise ValueError("the period of a slow worker is between 1 ms and 10 s")
        return self

    @property
    def what(self) -> SlowLink | CutLink | SlowWorker | SlowLoader | Kill | None:
        """The thing."""
        return self.slow_link or self.cut_link or self.slow_worker or self.slow_loader or self.kill

    @property
    def label(self) -> str:
        """What people call it."""
        if self.slow_link:
            return f"link of h{self.slow_link.host} at {rate_text(self.slow_link.rate_bytes_per_s)}"
        if self.cut_link:
            return f"link of h{self.cut_link.host} cut after {self.cut_link.after_s:g} s"
        if self.slow_worker:
            return f"rank {self.slow_worker.rank} runs {self.slow_worker.share:.0%} of the time"
        if self.slow_loader:
            who = "all ranks" if self.slow_loader.rank is None else f"rank {self.slow_loader.rank}"
            return f"data loader of {who} {self.slow_loader.delay_s:g} s later"
        assert self.kill is not None
        return f"rank {self.kill.rank} killed after {self.kill.after_s:g} s"

    def problem(self, topology: Topology) -> str | None:
        """Why it cannot happen there, or None."""
        what = self.what
        if isinstance(what, (SlowLink, CutLink)):
            if topology.hosts == 1:
                return f"{topology.place} has no links"
            if what.host >= topology.hosts:
                return f"{topology.place} has no host {what.host}"
        elif what is not None and (what.rank or 0) >= topology.world:
            return f"{topology.place} has no rank {what.rank}"
        return None


Word = Annotated[str, Field(max_length=4000, pattern=r"^[^\x00]*$")]
_Found = tuple[tuple[str, ...], str]
FlagValue = bool | int | float | Word | tuple[int | float | Word, ...]


class LabJob(Description):
    """One program that runs on every worker."""

    measure: Literal["collectives", "links", "matmul", "step"] | None = None
    """The part of `syncwall measure` that runs."""
    flags: dict[Word, FlagValue] = Field(default_factory=dict, alias="with")
    """Its options, without dashes: `true` for a switch, a list for several values."""
    run: tuple[Word, ...] | None = None
    """Instead of `measure`: words for Python, such as [train.py, --steps, 3]."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Variables set for every worker."""
    time_limit_s: Seconds = Field(600.0, alias="time_limit")
    """After this, all workers are killed."""

    @model_validator(mode="after")
    def _is_one_program(self) -> Self:
        if (self.measure is None) == (self.run is None):
            raise ValueError("a job has either `measure` or `run`")
        if self.run is not None and self.flags:
            raise ValueError("`with` belongs to `measure`; write the words of `run` there")
        if self.run == ():
            raise ValueError("`run` names no program")
        for name, text in self.environment.items():
            if not name or "=" in name or "\0" in name + text or len(name + text) > 4000:
                raise ValueError(f"environment: {name[:40]!r} is no name of a variable, or too long")
        return self

    @property
    def label(self) -> str:
        """What people call it."""
        if self.run is not None:
            words = " ".join(self.run)
            return words if len(words) <= 60 else f"{words[:57]}..."
        return " ".join([f"measure {self.measure}", *self._flag_words()])

    def words(self, output: Path) -> list[str]:
        """What follows `python` on the command line; a measurement is written to `output`."""
        if self.run is not None:
            return [*self.run]
        assert self.measure is not None
        flags = self._flag_words()
        return ["-m", "syncwall", "measure", self.measure, *flags, "--json", str(output)]

    def _flag_words(self) -> list[str]:
        words: list[str] = []
        for name, value in self.flags.items():
            if value is False:
                continue
            words.append(f"--{name.replace('_', '-')}")
            if isinstance(value, tuple):
                words += map(str, value)
            elif value is not True:
                words.append(str(value))
        return words


class Experiment(Description):
    """A question and what is run to answer it: every job on every place at every rate."""

    name: Annotated[str, Field(min_length=1, max_length=100)] = "unnamed"
    """The name of its file if not given."""
    title: str | None = None
    question: str | None = None
    """What it is to answer."""
    places: tuple[Placement, ...]
    """Hosts x workers on each, such as 2x2."""
    rates_bytes_per_s: tuple[BytesPerSecond, ...] = Field((125e6,), alias="rates")
    """Of one adapter, one way; a place with one host does not depend on them."""
    nics: Positive = 1
    """Adapters of each host."""
    serves: tuple[tuple[int, ...], ...] | None = None
    """For each adapter the workers that use it."""
    rails: Positive = 1
    leaves: Positive = 1
    oversubscription: Annotated[float, Field(ge=1, le=1000)] = 1.0
    uplinks: Positive = 1
    """Ways from a leaf up, each over a spine of its own."""
    threads: Positive = 1
    """Threads of each worker (OMP_NUM_THREADS)."""
    awake: bool = True
    """Keep the processors awake while a job runs."""
    check_links: bool = False
    """Let iperf3 measure the link between the first and the last host, too."""
    repeats: Positive = 1
    """How often each topology is made and each job run; rounds follow each other."""
    jobs: tuple[LabJob, ...]
    faults: tuple[Fault, ...] = ()
    """What goes wrong while each job runs."""

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        lists = {"places": self.places, "rates": self.rates_bytes_per_s, "jobs": self.jobs}
        found: list[_Found] = [((key,), f"`{key}` is empty") for key, values in lists.items() if not values]
        for topology in [] if found else self._topologies(found):
            for fault in self.faults:
                problem = fault.problem(topology)
                found += [(("faults",), f"{fault.label}: {problem}")] if problem else []
        if found:
            raise faults(list(dict.fromkeys(found)))
        return self

    def topologies(self) -> list[Topology]:
        """Every place at every rate; a place with one host once."""
        return self._topologies([])

    def _topologies(self, found: list[_Found]) -> list[Topology]:
        topologies: list[Topology] = []
        for hosts, workers in self.places:
            rates = self.rates_bytes_per_s if hosts > 1 else self.rates_bytes_per_s[:1]
            for rate in rates:
                try:
                    topologies.append(self._topology(hosts, workers, rate))
                except ValueError as error:
                    found.append((("places",), f"{hosts}x{workers}: {_reason(error)}"))
        return topologies

    def _topology(self, hosts: int, workers: int, rate_bytes_per_s: float) -> Topology:
        alone = hosts == 1  # no network: what is said of switches does not apply
        return Topology(
            hosts=hosts,
            workers=workers,
            rate_bytes_per_s=rate_bytes_per_s,
            nics=self.nics,
            serves=self.serves,
            rails=self.rails,
            leaves=1 if alone else self.leaves,
            oversubscription=1.0 if alone else self.oversubscription,
            uplinks=1 if alone else self.uplinks,
        )


def read_experiment(path: Path) -> Experiment:
    """The experiment in the file at `path`."""
    return validated(read_document(path), Experiment, name=path.stem)


def _reason(error: ValueError) -> str:
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        return str(first["msg"]).removeprefix("Value error, ")
    return str(error)
