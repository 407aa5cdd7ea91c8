"""What a page asks for: a run as JSON, with the keys of a run file.

Holds `AskedRun`, `AskedJob`, `AskedQuestion` and their checks. Names are looked up in the catalogue
only, never as files.
"""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from syncwall.describe import Job, Layout, Run
from syncwall.describe.base import MOST, Description
from syncwall.describe.faults import faults_of
from syncwall.describe.lookup import failure_rates
from syncwall.describe.names import only_catalogue
from syncwall.describe.stated import StatedRun
from syncwall.problems import InputError, Problem

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

    model: Entry = Field(
        description="Name in the catalogue, or a whole model.", examples=["llama-3.1-70b"]
    )
    cluster: Entry = Field(
        description="Name in the catalogue, or a whole machine.", examples=["dgx-h100"]
    )
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
        raise InputError(
            Problem("", 0, 0, said, ".".join(map(str, path))) for path, said in found
        ) from None


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
