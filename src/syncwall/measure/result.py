"""One measurement as a file: what was measured, where, and with what software.

Holds `Result`, and `JobFacts`. The data of a result is that of its kind: see
`collectives.CollectiveRow`, `links.LinkRow`, `kernels.KernelRow` and `step.StepData`.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field

from syncwall import __version__
from syncwall.describe.base import Description
from syncwall.describe.reading import read
from syncwall.documents import write_whole
from syncwall.measure.facts import Host

ResultKind = Literal["collectives", "links", "matmul", "step", "lab"]


class JobFacts(Description):
    """The processes that measured."""

    backend: str
    device: str
    """cpu, or the name of the accelerator."""
    hosts: tuple[str, ...]
    """By rank, the host it ran on."""

    @property
    def world(self) -> int:
        """Number of ranks."""
        return len(self.hosts)

    @property
    def host_names(self) -> tuple[str, ...]:
        """Every host once, in the order of ranks."""
        return tuple(dict.fromkeys(self.hosts))


class Result(Description):
    """One measurement."""

    syncwall: str = __version__
    kind: ResultKind
    made_at: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    complete: bool = True
    """False if it was interrupted: the rows are those measured until then."""
    job: JobFacts
    hosts: tuple[Host, ...]
    settings: dict[str, Any] = Field(default_factory=dict)
    """What was asked for."""
    data: dict[str, Any]

    def write(self, path: Path) -> None:
        """Write the result as JSON; a file of that name is replaced as a whole."""
        text = json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False)
        write_whole(path, text + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """The result in the file at `path`."""
        return read(path, cls)
