"""What all questions share.

Holds `Question`, whose fields and docstrings are the flags of a verb, the body of a page's request
and the keys in Python; `RunQuestion`, a question about a run; `Argument`, how a field is written on
a command line; and the types of fields: `LocalFile`, `LocalFolder`, `Share`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    GetPydanticSchema,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError, core_schema

from syncwall.describe import Run, Software
from syncwall.describe.base import Description, Whole
from syncwall.describe.faults import faults_of
from syncwall.describe.names import files_refused
from syncwall.describe.stated import StatedRun
from syncwall.problems import InputError, Problem, option
from syncwall.public import Answer
from syncwall.units import plural

if TYPE_CHECKING:
    from syncwall.answer.known import SiteFile
    from syncwall.answer.prediction import Prediction
    from syncwall.answer.site import Site
    from syncwall.cost.measured import MachineMeasurements

Progress = Callable[[float], None]
"""Is told the share of the work that is done."""


def quiet(_: float) -> None:
    """No-op progress callback."""


@dataclass(frozen=True)
class Argument:
    """How a field of a question is written on a command line."""

    takes: str = ""
    """What stands for its value in help: FILE."""
    positional: bool = False
    """It stands by itself, without a name."""
    letter: str = ""
    """A short name, such as -o."""
    inline: bool = False
    """Its own fields are flags without a prefix."""
    keys_of: type[Description] | None = None
    """Every key of this description is a flag."""
    elsewhere: tuple[str, ...] = ()
    """Keys of that description that other flags state."""
    short: bool = False
    """The prefix may be left out: --tp for --layout.tp."""
    group: str = ""
    """Heading in help."""
    hidden: bool = False
    """It is no flag."""
    many: bool = False
    """It takes several values, whatever its type."""


Count = Annotated[int, Whole(1), Argument("N")]
GpuCount = Annotated[int, Whole(1), Argument("GPUS")]
QueuePairs = Annotated[int, Whole(1, 128), Argument("N")]


class Question(Description):
    """One ability: verbs, pages and the functions of `syncwall.plan` build one and ask `answer`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    verb: ClassVar[str]
    """As it is typed: "plan wall"."""
    working: ClassVar[str] = ""
    """What a progress bar says meanwhile."""

    def answer(self, progress: Progress = quiet) -> Answer:
        """The answer; InputError for a question that has none."""
        raise NotImplementedError

    @classmethod
    def of(cls, stated: Mapping[str, Any]) -> "Question":
        """The question with these keys; InputError names the key of each problem."""
        try:
            return cls.model_validate(stated, context={"in_file": True})
        except ValidationError as error:
            found = faults_of(error, cls)
            raise InputError(
                Problem("", 0, 0, said, ".".join(map(str, path))) for path, said in found
            ) from None


def _error(message: str) -> PydanticCustomError:
    return PydanticCustomError("syncwall", "{message}", {"message": message})


def _local(path: Path) -> Path:
    if files_refused():
        raise _error("files are not read here")
    return path


def _files(value: Any) -> Any:
    """Paths of files; what Python describes in their place stays as it is."""
    if isinstance(value, list | tuple):
        return tuple(map(_files, value))
    if isinstance(value, bool | int | float | dict | bytes):
        raise _error(f"{value!r} is not a path")
    return _local(Path(value)) if isinstance(value, str | Path) else value


LocalFile = Annotated[Path, AfterValidator(_local), Argument("FILE")]
"""A file of the machine that asks; refused where questions come from elsewhere."""
LocalFolder = Annotated[Path, AfterValidator(_local), Argument("DIR")]


def _share(value: Any) -> Any:
    try:
        text = str(value)
        found = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        found = -1.0
    if not 0.0 < found <= 1.0:
        raise _error(f'"{value}" is not a share: write for example "80%"')
    return found


Share = Annotated[float, BeforeValidator(_share), Argument("SHARE")]
"""More than none and at most all of something: 80% or 0.8."""


def _stated(value: Any) -> Run | StatedRun:
    if isinstance(value, Run | StatedRun):
        return value
    if isinstance(value, Mapping):
        return StatedRun.of_keys(value)
    if not isinstance(value, str | Path):
        raise _error(f'"{value}" is not a run: write its keys, or the name of a run file')
    return StatedRun.of_file(_local(Path(value)))


Asked = Annotated[
    Run | StatedRun,
    GetPydanticSchema(lambda *_: core_schema.no_info_plain_validator_function(_stated)),
    WithJsonSchema({"type": "object", "description": "Keys of a run, as in a run file."}),
]
"""A run; or its keys, as in a run file, or such a file, which leave the rest open."""


class RunQuestion(Question):
    """A question about a run, and what is known of its machine."""

    run: Asked = StatedRun()
    """The run."""
    known_run: Annotated[Any, BeforeValidator(_files), Argument("FILE", group="run", many=True)] = ()
    """Measured runs of the same cluster (run files with `measured`), three if there are: prices of
    computing, network and host are anchored to them."""
    calibration: Annotated[Any, BeforeValidator(_files), Argument("FILE", group="run", many=True)] = ()
    """Results of `syncwall measure` on the machine, a calibration made of them or by hand (one GEMM
    rate is enough), or outputs of nccl-tests: measured beats catalogue."""
    site: Annotated[Any, BeforeValidator(_files), Argument("FILE", group="run")] = None
    """What `syncwall measure node` wrote about one node of the cluster: a calibration and known runs
    in one file (the key `site` of a run file)."""
    catalogue: Annotated[LocalFolder | None, Argument("DIR", group="run")] = None
    """Look in this directory first (devices/NAME.yaml, ...)."""

    @property
    def stated(self) -> StatedRun:
        """What was stated of the run, where it is not described as a whole."""
        return StatedRun() if isinstance(self.run, Run) else self.run

    def described(self) -> Run:
        """The run, with what is open left open."""
        return self.run if isinstance(self.run, Run) else self.run.run()

    def measurements(self) -> "MachineMeasurements | None":
        """What was measured on the machine."""
        site = self.site_file
        if self.calibration is not None and not isinstance(self.calibration, tuple):
            return self.calibration  # type: ignore[no-any-return] # described in Python
        if not self.calibration:
            return site.calibration if site else None
        from syncwall.measure.calibrate import joined_calibrations
        from syncwall.read.machine_measured import read_machine_measured

        found = read_machine_measured(self.calibration)
        return joined_calibrations([site.calibration, found]) if site else found

    def known_site(self, measured: "MachineMeasurements | None") -> "Site":
        """What known runs say, beside what was `measured`."""
        from syncwall.answer.site import UNKNOWN_SITE

        if not isinstance(self.known_run, tuple) and self.known_run is not UNKNOWN_SITE:
            return self.known_run  # type: ignore[no-any-return] # described in Python
        files = self.known_run if isinstance(self.known_run, tuple) else ()
        site = self.site_file
        if not files and site is None:
            return UNKNOWN_SITE
        from syncwall.answer.known import site_of
        from syncwall.describe.reading import read
        from syncwall.describe.run import KnownRun

        if site is None:
            return site_of(files, measured)
        return site.site([read(path, KnownRun) for path in files], measured)

    @cached_property
    def site_file(self) -> "SiteFile | None":
        """What was measured on one node, as stated beside the run or in its file."""
        named = self.stated.file.site if self.site is None else self.site
        if not isinstance(named, Path):
            return named  # described in Python
        from syncwall.answer.known import SiteFile
        from syncwall.describe.reading import read

        return read(_local(named), SiteFile)


class WorkQuestion(RunQuestion):
    """A question about a run, or about a recorded program in its place."""

    work: Annotated[Any, BeforeValidator(_files), Argument("FILE", group="work")] = None
    """A program that `syncwall capture` recorded, in place of model and layout."""
    compiled: Annotated[bool, Argument(group="work")] = False
    """Join memory-bound kernels of a recorded program, as torch.compile does."""
    eager: Annotated[bool, Argument(group="work")] = False
    """Do not, even if the program asks for torch.compile."""

    def recorded(self, *, free: Sequence[str] = ()) -> "Prediction":
        """The program, on the cluster that is named; keys beside `free` ones are refused."""
        from syncwall.answer.prediction import predict
        from syncwall.describe import lookup
        from syncwall.read.recorded_program import read_program

        if self.compiled and self.eager:
            raise InputError.of(f"{option('compiled')} and {option('eager')} contradict each other")
        stated = self.stated
        if "cluster" not in stated:
            raise InputError.of(
                f"write {option('cluster')} NAME: the machine that the recorded program runs on"
            )
        program = read_program(self.work) if isinstance(self.work, Path) else self.work
        self._refuse_fixed(free, program.world_size)
        return predict(
            program,
            cluster=lookup.cluster(stated.get("cluster")),
            software=Software.model_validate(stated.values.get("software", {})),
            compiled=None if self.compiled == self.eager else self.compiled,
            measured=self.measurements(),
        )

    def _refuse_fixed(self, free: Sequence[str], ranks: int) -> None:
        """Refuse keys that a recorded program has fixed, but for GPUs that are its `ranks`."""
        if "software.kernels" in self.stated:
            instead = f"{option('compiled')} or {option('eager')}"
            raise InputError.of(f"{option('kernels')} is for descriptions: write {instead}")
        taken = ("cluster", "software", *free, *["gpus"] * (self.stated.get("gpus") == ranks))
        keys = [key for key in self.stated.keys if key.partition(".")[0] not in taken]
        if keys:
            raise InputError.of(
                f"{option(keys[0])} cannot be changed in a program recorded with "
                f"{plural(ranks, 'rank')}: record it again with other arguments"
            )

    def refuse_beside_work(self, *keys: str) -> None:
        """Refuse keys of this question that are stated and have no meaning for a program."""
        stated = [key for key in keys if getattr(self, key)]
        if self.work is not None and stated:
            raise InputError.of(
                f"{option(stated[0])} is for descriptions, not for {option('work')}: leave it out"
            )
