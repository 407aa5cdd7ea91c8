"""What pages ask beside a run: one class for each question, which no answer has to be loaded for.

Runs and jobs themselves are in `asked`. The server checks what comes in by these classes alone; the
functions that answer are in `answers`, and are loaded by the processes that call them.
"""

import json
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from syncwall.describe import Layout
from syncwall.network import Routing
from syncwall.plan.choices import SEARCHED, FabricKind, Objective, Scaling
from syncwall.web.asked import Asked, AskedJob, AskedRun, Count
from syncwall.web.guard import MAX_BODY_BYTES

MOST_GPUS: Final = 2**20
"""GPUs to which the curves of a run may go."""
MOST_BYTES: Final = 2.0**36
"""Of an all-reduce that is drawn."""
MOST_STAGES: Final = 16
"""Of a pipeline that is drawn."""
_STAGES: Final = 4
"""Shown for a run without a pipeline."""
_PartName = Annotated[str, Field(max_length=24)]


class AskedText(Asked):
    """Something pasted."""

    longest = 60_000
    text: Annotated[str, Field(max_length=longest)] = Field(
        description="A run file (YAML), a model, a Hugging Face config.json, or settings of a "
        "framework: whatever `predict --from` takes."
    )
    name: Annotated[str, Field(max_length=200)] = Field(
        "", description="Name of the file, if it was one: its ending says how it is written."
    )
    run: AskedRun | None = Field(None, description="The run on the page, which the text is about.")


class ExportKind(StrEnum):
    """Kinds of files."""

    YAML = "yaml"
    JSON = "json"
    PERFETTO = "perfetto"
    HTML = "html"


class AskedBeside(Asked):
    """Two runs."""

    pinned: AskedRun = Field(description="The run that the other one is compared with.")
    run: AskedRun


class AskedMoves(Asked):
    """A run that may grow."""

    run: AskedRun
    most: Annotated[int, Field(ge=1, le=MOST_GPUS)] = Field(
        MOST_GPUS, description="GPUs to which curves go.", examples=[65536]
    )


class AskedWall(AskedMoves):
    """A run that may grow, and others to compare it with."""

    scaling: Scaling = Field(
        Scaling.STRONG, description="strong: the global batch stays; weak: that of a replica does."
    )
    others: Annotated[list[AskedRun | dict[str, Any]], Field(max_length=5)] = Field(
        default_factory=list,
        description="The same on another cluster or in another layout; what is wrong with one of "
        "them stands in its place in the answer.",
    )


class AskedProgram(Asked):
    """A recorded program and the machine that it is to run on."""

    longest: ClassVar[int] = MAX_BODY_BYTES

    name: str = Field("run.work.json.gz", max_length=200, description="What messages call it.")
    file: str = Field(description="What `syncwall capture` wrote, in base64.")
    cluster: str = Field(
        max_length=200, description="Name in the catalogue.", examples=["dgx-h100"]
    )
    compiled: bool | None = Field(
        None, description="Join memory-bound kernels; null: as the program asks for."
    )


class AskedOutcome(AskedJob):
    """A job, and what somebody hopes for."""

    by: Annotated[str, Field(max_length=100)] | None = Field(
        None, description="A date, if the job says when it starts, or a time from its start.",
        examples=["90 days"],
    )  # fmt: skip
    within: Annotated[str, Field(max_length=100)] | None = Field(
        None, description="A sum of US dollars.", examples=["$2,000,000"]
    )


class Search(Asked):
    """What to search, and for what."""

    run: AskedRun
    keep: Annotated[list[str], Field(max_length=len(Layout.model_fields))] = Field(
        default_factory=list,
        description="Fields of the layout that stay as they are; the others of "
        f"{', '.join(SEARCHED)} are searched.",
        examples=[["tp"]],
    )
    objective: Objective = Field("fastest", description="Shortest step, fewest GPU-hours or GPUs.")
    nodes: Annotated[list[Count], Field(max_length=6)] = Field(
        default_factory=list, description="Numbers of nodes to try; empty for that of the run."
    )
    within_s: Annotated[float, Field(gt=0.0, le=1e9)] | None = Field(
        None, description="Only steps of at most so many seconds."
    )
    usd_per_gpu_hour: Annotated[float, Field(gt=0.0, le=1e6)] | None = Field(
        None, description="Price, for the cost."
    )
    top: Annotated[int, Field(ge=1, le=50)] = Field(20, description="How many of the best to list.")
    beside_yours: bool = Field(
        True, description="Lay the run as it stands beside them; `plan/yours` does it later."
    )

    def text(self) -> str:
        """What is asked, so that equal questions are equal texts."""
        return json.dumps(self.model_dump(mode="json", exclude_none=True), sort_keys=True)


class AskedComparison(Asked):
    """Runs to lay side by side."""

    runs: Annotated[list[AskedRun], Field(min_length=2, max_length=5)] = Field(
        description="The others are compared with the first."
    )


class AskedSettings(Asked):
    """A run, and the framework that is to run it."""

    run: AskedRun
    format: str = Field(description="One of torchtitan, megatron, deepspeed, accelerate.")


class AskedWiring(Asked):
    """A run, and the fabric under it."""

    run: AskedRun
    kind: FabricKind | None = Field(
        None, description="Open: as the cluster says, else with rails where that can be."
    )
    switch: Annotated[str, Field(max_length=80)] | None = Field(
        None, description="Switch of the catalogue; open: 64 ports at the rate of the NICs."
    )
    oversubscription: float | None = Field(
        None,
        ge=1,
        le=16,
        description="NICs of a full leaf over its cables up; open: the cluster's.",
    )
    routing: Routing = Field(
        "ecmp", description="How flows find their way, as `predict --routing`."
    )
    qps: int = Field(1, ge=1, le=128, description="Queue pairs of a connection.")


class AskedFabric(AskedWiring):
    """A run on a fabric, narrower or broken."""

    failed: list[_PartName] = Field(
        default_factory=list, max_length=12, examples=[["leaf:2", "nic:3-1", "link:1-2"]],
        description="Broken parts: node:N, nic:NODE-NIC, leaf:N, link:LEAF-SPINE (one cable), "
        "spine:N, core:N; counted from 1. Routers of a dragonfly are its leaves.",
    )  # fmt: skip


class AskedFlows(AskedWiring):
    """A run on a fabric whose links its flows share; or two copies of it."""

    order: Literal["nodes", "crossed"] = Field(
        "nodes", description="Ranks in the order of nodes, or one node of each leaf group in turn."
    )
    jobs: Literal["one", "apart", "interleaved"] = Field(
        "one",
        description="The run alone; or two copies of it on a fabric for both, the second on the "
        "nodes behind those of the first, or on every second node.",
    )
    flows: Annotated[str, Field(max_length=40)] | None = Field(
        None, description="Which flows to draw, an id of the answer; open: the slowest."
    )


class AskedStep(Asked):
    """A run, and how to look at its step."""

    run: AskedRun
    mode: Literal["run", "ddp", "fsdp"] = Field(
        "run", description="Sharding: that of the run, or another one to compare with."
    )
    workers: int = Field(6, ge=2, le=8, description="Data-parallel workers that are drawn.")
    slow: float = Field(1.0, ge=1, le=5, description="One worker computes this many times slower.")
    worker: int = Field(3, ge=1, le=8, description="Which one, from 1.")

    def changed(self) -> AskedRun:
        """The run with the sharding of `mode`."""
        if self.mode == "run":
            return self.run
        layout = {k: v for k, v in self.run.layout.items() if k not in ("shard", "shard_degree")}
        return self.run.model_copy(update={"layout": layout | {"shard": self.mode}})


class AskedCollective(Asked):
    """A run, and the all-reduce to look at."""

    run: AskedRun
    workers: int = Field(6, ge=2, le=8, description="Workers that are drawn.")
    size: float | None = Field(
        None, ge=1, le=MOST_BYTES,
        description="Bytes; a bucket of DDP, or the gradients of a layer, if not given.",
    )  # fmt: skip


class AskedPipeline(Asked):
    """A run, and the stage that is slow."""

    run: AskedRun
    slow: float = Field(1.0, ge=1, le=5, description="One stage computes this many times slower.")
    worker: int = Field(3, ge=1, le=MOST_STAGES, description="Which one, from 1.")

    def plain(self) -> AskedRun:
        """The run with a plain pipeline."""
        layout = dict(self.run.layout)
        if self.run.run().layout.pp == 1:
            layout = {k: v for k, v in layout.items() if k not in ("dp", "shard_degree")}
            layout["pp"] = _STAGES
        layout |= {"schedule": "1f1b", "virtual_stages": 1}
        return self.run.model_copy(update={"layout": layout})


class AskedFolder(Asked):
    """Names of the folder that the server was given."""

    longest = 60_000

    name: str = Field(max_length=255, description="A file or folder of the list.")
    against: str = Field("", max_length=255, description="Another, to compare with.")
    cluster: str = Field("", max_length=200, description="What the hosts should be.")
    run: str = Field("", max_length=longest, description="A run file, to be laid beside it.")
