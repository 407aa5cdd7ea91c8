"""What pages ask: a run as JSON with the keys of a run file, and a class for each question
beside it.

Names are looked up in the catalogue only, never as files.

Runs and jobs themselves are in `asked`. The server checks what comes in by these classes alone; the
functions that answer are in `answers`, and are loaded by the processes that call them.
"""

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from syncwall.describe import Job, Layout, Run
from syncwall.describe.base import MOST, Description
from syncwall.describe.faults import faults_of
from syncwall.describe.lookup import failure_rates
from syncwall.describe.names import only_catalogue
from syncwall.describe.stated import StatedRun
from syncwall.network import Routing
from syncwall.plan.choices import SEARCHED, FabricKind, Objective, Scaling
from syncwall.problems import InputError, Problem
from syncwall.web.guard import MAX_BODY_BYTES

MOST_VALUES: Final = 2000
"""Keys and values in a body; the largest description of the catalogue has 200."""
_TOO_MANY: Final = f"more than {MOST_VALUES:,} keys and values"
_DEEPEST: Final = 12
_LARGEST: Final = 1e18
_LARGEST_COUNT: Final = 1e10

Scalar = bool | int | float | str | None
Entry = Annotated[str, Field(max_length=200)] | dict[str, Any]
Count = Annotated[int, Field(ge=1, le=MOST)]
Described = TypeVar("Described", bound=Description)


class Asked(BaseModel):
    """Anything that a page asks for; unknown keys are refused, and what no arithmetic can stand."""

    model_config = ConfigDict(extra="forbid")

    longest: ClassVar[int] = 2000
    """Letters of a text."""

    @model_validator(mode="before")
    @classmethod
    def _sane(cls, value: Any) -> Any:
        for number, (path, one) in enumerate(_values(value, ())):
            said = _strange(one, path, cls.longest) if number < MOST_VALUES else _TOO_MANY
            if said is not None:
                said = ": ".join(filter(None, (".".join(path[:_DEEPEST]), said)))
                raise PydanticCustomError("syncwall", "{said}", {"said": said})
        return value


class AskedQuestion(Asked):
    """A question of `syncwall.ask`, with the keys of its type."""

    model_config = ConfigDict(extra="allow")


class AskedRun(Asked):
    """A training run, as in a run file."""

    model: Entry = Field(description="Name in the catalogue, or a whole model.", examples=["llama-3.1-70b"])
    cluster: Entry = Field(description="Name in the catalogue, or a whole machine.", examples=["dgx-h100"])
    nodes: Count | None = Field(None, description="Nodes used.", examples=[32])
    gpus_per_node: Count | None = Field(None, description="GPUs used in each node.")
    gpus: Count | None = Field(None, description="GPUs used, instead of nodes.")
    seq: Count | None = Field(None, description="Tokens in a sequence.")
    layout: dict[str, Scalar | list[str]] = Field(
        default_factory=dict,
        description="Parallel layout, as in a run file: " + ", ".join(Layout.model_fields),
        examples=[{"tp": 8, "shard": "fsdp", "global_batch": 256}],
    )
    software: dict[str, Scalar] = Field(
        default_factory=dict, description="Framework, its date and kernels, as in a run file."
    )

    @field_validator("layout", "software")
    @classmethod
    def _without_open(cls, stated: dict[str, Any]) -> dict[str, Any]:
        """What is null is open, as if it were not there."""
        return {key: value for key, value in stated.items() if value is not None}

    def run(self) -> Run:
        """The run that is meant; InputError names the key of each problem."""
        with only_catalogue():
            return self.stated().run()

    def stated(self) -> StatedRun:
        """What is stated of it."""
        return StatedRun.of_keys(self.fields())

    def fields(self) -> dict[str, Any]:
        """What was stated, with the keys of a run file."""
        return self.model_dump(exclude_none=True, exclude_defaults=True)


class AskedJob(Asked):
    """A whole job, as in a job file."""

    run: AskedRun
    job: dict[str, Any] = Field(
        description="As in a job file, without its run: tokens or steps, failures, checkpoints, "
        "spares, price, ...",
        examples=[{"tokens": "15T", "spares": 8}],
    )

    def described(self) -> Job:
        """The job that is meant; InputError names the key of each problem."""
        job = checked(Job, self.job | {"run": self.run.run()})
        try:
            with only_catalogue():  # looked up only when the job is settled
                failure_rates(job.failures.like)
        except InputError as error:
            raise InputError.of(str(error), key="failures.like") from None
        return job


def checked(described: type[Described], fields: dict[str, Any]) -> Described:
    """The description in `fields`; each problem has the dotted key in the place of a file."""
    try:
        with only_catalogue():
            return described.model_validate(fields, context={"in_file": True})
    except ValidationError as error:
        found = faults_of(error, described)
        raise InputError(Problem("", 0, 0, said, ".".join(map(str, path))) for path, said in found) from None


def _values(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Everything in `value`, keys as well, from the outside to the inside."""
    yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield path, key
            yield from _values(inner, (*path, str(key)[:40]))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _values(inner, (*path, str(number)))


def _strange(value: Any, path: tuple[str, ...], longest: int) -> str | None:
    """What is wrong with a value that is nested too deeply, no text, or that no run has."""
    if len(path) > _DEEPEST:
        return "is nested too deeply"
    if isinstance(value, str):
        if len(value) > longest:
            return f"has more than {longest:,} letters"
        return None if value.encode(errors="replace").decode() == value else "is not text"
    if isinstance(value, int | float) and not isinstance(value, bool):
        counts = {"layout", "model"} & set(path)  # multiplied with each other
        if not abs(value) <= (_LARGEST_COUNT if counts else _LARGEST):
            return "is larger than anything there is"
    return None


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
    most: Annotated[int, Field(ge=1, le=MOST_GPUS)] | None = Field(
        None, description="GPUs to which curves go; those of the largest validated run.", examples=[65536]
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
    names: Annotated[list[Annotated[str, Field(max_length=400)]], Field(max_length=5)] = Field(
        default_factory=list, description="What these are called in the answer."
    )
    measure: Literal["efficiency", "tokens_per_s", "tokens_per_s_per_gpu", "step_s"] = Field(
        "efficiency", description="What the chart shows."
    )
    of: Annotated[int, Field(ge=0, le=5)] = Field(
        0, description="Of which run to show the ledger and every count; 0 is the run itself."
    )


class AskedProgram(Asked):
    """A recorded program and the machine that it is to run on."""

    longest: ClassVar[int] = MAX_BODY_BYTES

    name: str = Field("run.work.json.gz", max_length=200, description="What messages call it.")
    file: str = Field(description="What `syncwall capture` wrote, in base64.")
    cluster: str = Field(max_length=200, description="Name in the catalogue.", examples=["dgx-h100"])
    compiled: bool | None = Field(
        None, description="Join memory-bound kernels; null: as the program asks for."
    )


class AskedOutcome(AskedJob):
    """A job, and what somebody hopes for."""

    by: Annotated[str, Field(max_length=100)] | None = Field(
        None,
        description="A date, if the job says when it starts, or a time from its start.",
        examples=["90 days"],
    )
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
    names: Annotated[list[Annotated[str, Field(max_length=80)]], Field(max_length=5)] = Field(
        default_factory=list, description="What they are called in `html`."
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
    routing: Routing = Field("ecmp", description="How flows find their way, as `predict --routing`.")
    qps: int = Field(1, ge=1, le=128, description="Queue pairs of a connection.")


class AskedFabric(AskedWiring):
    """A run on a fabric, narrower or broken."""

    failed: list[_PartName] = Field(
        default_factory=list,
        max_length=12,
        examples=[["leaf:2", "nic:3-1", "link:1-2"]],
        description="Broken parts: node:N, nic:NODE-NIC, leaf:N, link:LEAF-SPINE (one cable), "
        "spine:N, core:N; counted from 1. Routers of a dragonfly are its leaves.",
    )


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


class AskedPublished(Asked):
    """Which published runs to look at; without any wish all those that are not in doubt."""

    source: Annotated[str, Field(max_length=200)] = ""
    part: Annotated[str, Field(max_length=40)] = Field("", description="What they are used for.")
    device: Annotated[str, Field(max_length=200)] = ""
    words: Annotated[str, Field(max_length=200)] = Field(
        "", description="Each is in the name of the model, of the framework, or in the id."
    )
    doubtful: bool = Field(False, description="Those in doubt, too.")
    only: Annotated[list[str], Field(max_length=400)] | None = Field(
        None, description="None but those with these ids."
    )
    chosen: Annotated[str, Field(max_length=300)] = Field("", description="The run to describe.")


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
        None,
        ge=1,
        le=MOST_BYTES,
        description="Bytes; a bucket of DDP, or the gradients of a layer, if not given.",
    )


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
