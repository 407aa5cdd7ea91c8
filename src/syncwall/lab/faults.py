"""What may go wrong in a lab on purpose, as stated in an experiment.

Holds `SlowLink`, `CutLink`, `SlowWorker`, `SlowLoader`, `Kill` and `Fault`, one of them.
`happening.py` makes them happen.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from syncwall.describe.base import BytesPerSecond, Description, NotNegative, Seconds
from syncwall.lab.topology import Topology, rate_text


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
        if len(self.model_fields_set) != 1 or self.what is None:
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
