"""What every description has in common: frozen, complete, read with units, each number with
its origin and range.

All are far beyond what is built or planned, and near enough that products of them are finite, as
floats and in 64 bits.

Both compute like plain numbers; the result of arithmetic is a plain number.

Each takes what can exist and nothing else (`ranges.py`), so that all arithmetic on a description
stays finite; zero only where the type says so (`Delay`, `UsdPerGpuHour`, `NotNegative`).

A quantity is written as text with its unit ("400Gb/s"), or as a mapping with its origin ({value:
400Gb/s, trust: datasheet, source: ...}). A bare number is taken only from Python, where the field's
name carries the unit; in a file only under that name (`rate_bytes_per_s`), as JSON output writes
it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from syncwall import catalogue, units
from syncwall.describe.faults import faults_of
from syncwall.documents import Document
from syncwall.units import Dimension

RANGES: Final[dict[Dimension, tuple[float, float]]] = {
    Dimension.BYTES: (1.0, 1e21),
    Dimension.BYTES_PER_S: (1.0, 1e18),
    Dimension.FLOP: (1.0, 1e30),
    Dimension.FLOP_PER_S: (1e6, 1e21),
    Dimension.SECONDS: (1e-12, 1e10),
    Dimension.HERTZ: (1.0, 1e15),
    Dimension.WATTS: (1e-3, 1e9),
    Dimension.TOKENS: (1.0, 1e18),
    Dimension.USD: (1e-6, 1e18),
    Dimension.USD_PER_GPU_HOUR: (1e-6, 1e6),
}
MOST: Final = 10_000_000
"""Of GPUs, nodes, rows of an embedding, ...: the largest planned machine has a tenth of it."""
MOST_TOKENS: Final = 100_000_000
"""In a sequence; models are published with 10 million."""
MOST_SEQUENCES: Final = 1_000_000_000
"""In an optimizer step; the counts of strong scaling are its divisors."""
MOST_LAYERS: Final = 100_000
"""Of a model; the deepest that were trained have 1,000."""
MOST_IN_A_NODE: Final = 4096
"""GPUs or NICs of one node: each is listed when they are dealt to each other."""
MOST_STEPS: Final = 10**12
"""Of a job: a microsecond each, it goes on for 12 days."""
MOST_SEED: Final = 10**18
MOST_IMBALANCE: Final = 1000.0
"""Tokens of one expert-parallel rank over the average: with all of them on one rank it is the
number of ranks, and nobody has put 1,000 ranks around one layer."""


class Trust(StrEnum):
    """How much a number is worth, the best first."""

    MEASURED = "measured"
    FITTED = "fitted"
    DATASHEET = "datasheet"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a number comes from."""

    trust: Trust = Trust.ASSUMED
    source: str | None = None
    """A key of the catalogue's `sources.yaml`, or free text."""
    date: str | None = None
    """When it was true or published (ISO date, year or month); that of the source if None."""
    note: str | None = None
    stated: str | None = None
    """The number as the file writes it, where that differs from the value (duplex, bits)."""
    others: tuple[str, ...] = ()
    """What other sources say, where they disagree."""

    @property
    def known_source(self) -> dict[str, Any] | None:
        """The catalogue's record of the source, if `source` is a key."""
        found = catalogue.sources().get(self.source or "")
        return found if isinstance(found, dict) else None

    @property
    def dated(self) -> str | None:
        """The date of the number, or else of its source."""
        record = self.known_source
        return self.date or (str(record["date"]) if record else None)

    def as_dict(self) -> dict[str, Any]:
        """What is known, for JSON; the source with title and place if the catalogue has them."""
        record = self.known_source or {}
        known = {
            "trust": str(self.trust),
            "source": self.source,
            "title": record.get("title"),
            "where": record.get("where"),
            "date": self.dated,
            "stated": self.stated,
            "note": self.note,
            "others": list(self.others),
        }
        return {key: value for key, value in known.items() if value not in (None, [])}


class SourcedNumber(float):
    """A float in SI units that knows what it measures and where it comes from."""

    dimension: Dimension
    provenance: Provenance

    def __new__(cls, value: float, dimension: Dimension, provenance: Provenance) -> Self:
        """Make the number `value` with what is known about it."""
        self = super().__new__(cls, value)
        self.dimension = dimension
        self.provenance = provenance
        return self

    def __getnewargs__(self) -> tuple[float, Dimension, Provenance]:  # type: ignore[override]
        """What `pickle` and `copy` make it anew from."""
        return float(self), self.dimension, self.provenance

    @property
    def text(self) -> str:
        """The value with its unit."""
        return units.format(self, self.dimension)

    @property
    def unit(self) -> str:
        """The SI unit of the value."""
        return units.si_unit(self.dimension)


class Count(int):
    """A whole number with its provenance."""

    provenance: Provenance

    def __new__(cls, value: int, provenance: Provenance) -> Self:
        """Make the number `value` with what is known about it."""
        self = super().__new__(cls, value)
        self.provenance = provenance
        return self

    def __getnewargs__(self) -> tuple[int, Provenance]:  # type: ignore[override]
        """What `pickle` and `copy` make it anew from."""
        return int(self), self.provenance


Stated = TypeVar("Stated")
MAY_BE_OPEN: Final = "may be open"
"""Marks a field that may be open, in its metadata."""
if TYPE_CHECKING:
    Open = Annotated[Stated, "may be open"]
else:

    class Open:
        """A field that may be open: `Open[int]` holds None until it is stated or settled.

        To type checkers it is an int, as it is to all code that prices a settled run.
        """

        def __class_getitem__(cls, stated: Any) -> Any:
            """The type with None."""
            return Annotated[stated | None, MAY_BE_OPEN]


OPEN: Final[Any] = None
"""The value of a field that nobody stated."""
_ORIGIN_KEYS: Final = ("value", "trust", "source", "date", "note", "others")


class Description(BaseModel):
    """Something the user or the catalogue states: never changed, no unknown keys.

    Python names carry the unit (`rate_bytes_per_s`); files use the short alias (`rate`).
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False, defer_build=True
    )

    def __init__(self, /, **stated: Any) -> None:
        try:
            super().__init__(**stated)
        except ValidationError as error:
            raise _in_our_words(error, type(self)) from None

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined] # none of its own

    @model_validator(mode="before")
    @classmethod
    def _numbers_by_their_unit(cls, value: Any) -> Any:
        """A bare number under a name that carries its unit, as JSON writes it, is in that unit.

        Words may be listed without brackets: a,b.
        """
        if not isinstance(value, dict):
            return value
        found: dict[str, Any] = {}
        for name, stated in value.items():
            field = cls.model_fields.get(name)
            if field is not None and isinstance(stated, str) and _lists_words(field.annotation):
                found[name] = tuple(word.strip() for word in stated.split(","))
            if field is None or not field.alias:
                continue
            dimension = dimension_of(field.annotation, *field.metadata)
            if dimension is not None:
                table = get_origin(field.annotation) is dict
                found[name] = _in_unit(stated, dimension, table=table)
        return {**value, **found}

    def __copy__(self) -> Self:
        """A shallow copy, faster than pydantic's: descriptions have no private attributes."""
        copied = object.__new__(type(self))
        set_of = object.__setattr__
        set_of(copied, "__dict__", self.__dict__.copy())
        set_of(copied, "__pydantic_fields_set__", self.__pydantic_fields_set__.copy())
        set_of(copied, "__pydantic_extra__", None)
        set_of(copied, "__pydantic_private__", None)
        return copied

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What differs from its default."""
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if hasattr(value, "ndim") or value != field.get_default(call_default_factory=True):
                yield name, value


class CatalogueEntry(Description):
    """A description that can be an entry of the catalogue."""

    name: str = "unnamed"
    """What people call it; in the catalogue, the name of its file."""
    title: str | None = None
    """The name as its maker writes it."""
    aliases: tuple[str, ...] = ()
    """Other names under which it is found."""
    note: str | None = None
    """What a reader should know before using the numbers."""
    provenance: dict[str, Any] | None = None
    """Origin of every number of this entry that does not state its own (trust, source, date)."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """The name: it stands for all the rest."""
        yield None, self.name

    @classmethod
    def prepared(cls, document: Document) -> Document:
        """`document` in the form that this type reads; a type that reads others overrides it."""
        return document


class _Number:
    """Field annotation that reads a number with `_validate`."""

    def __get_pydantic_core_schema__(
        self, source: type[Any], handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(
            self._validate, serialization=core_schema.plain_serializer_function_ser_schema(source)
        )

    def __get_pydantic_json_schema__(self, *_: Any) -> dict[str, Any]:
        return {"type": ["number", "string"]}

    def _validate(self, value: Any, info: ValidationInfo) -> float:
        raise NotImplementedError


@dataclass(frozen=True)
class Quantity(_Number):
    """Field annotation: a float of this dimension that can exist, from text with a unit."""

    dimension: Dimension
    zero: bool = False
    """True where nothing at all is meaningful too."""

    def _validate(self, value: Any, info: ValidationInfo) -> float:
        if isinstance(value, SourcedNumber):
            self.check(float(value), value.text if 0 <= value < float("inf") else "")
            return value
        stated, origin = _split(value, info)
        if isinstance(stated, str):
            number = _parsed(stated, self.dimension)
            self.check(number, stated)
            if re.search(r"b(it)?/s|duplex", stated):  # shown in bytes, one way
                origin["stated"] = stated.strip()
            return SourcedNumber(number, self.dimension, _provenance(origin))
        if isinstance(stated, bool) or not isinstance(stated, (int, float)):
            raise _error(f"{_kind(stated)} is not {self.dimension.words}: {self._example}")
        if _in_file(info) and self.dimension is not Dimension.TOKENS:
            _parsed(f"{stated}", self.dimension)  # raises: a bare number has no unit
        self.check(stated)
        return SourcedNumber(stated, self.dimension, _provenance(origin))

    def check(self, number: float, stated: str = "") -> None:
        """Refuse a number (SI) that nothing has; `stated` is how it was written."""
        least, most = RANGES[self.dimension]
        if least <= number <= most or (self.zero and 0 <= number < least):
            return
        said = stated or _shown(number)
        if not 0 < number < float("inf"):
            raise _error(f"{said} is not {self.dimension.words}: {self._example}")
        bounds = " to ".join(units.format(one, self.dimension) for one in (least, most))
        raise _error(f"{said} is not {self.dimension.words} that can be: write {bounds}")

    @property
    def _example(self) -> str:
        return f'write for example "{self.dimension.value}"'


@dataclass(frozen=True)
class Whole(_Number):
    """Field annotation: a whole number from `least` to `most`, plain or with its origin."""

    least: int
    most: int = MOST

    def _validate(self, value: Any, info: ValidationInfo) -> int:
        if isinstance(value, Count) and self.least <= value <= self.most:
            return value
        stated, origin = _split(value, info)
        if isinstance(stated, bool) or not isinstance(stated, int):
            raise _error(f"{_kind(stated)} is not a whole number{_in_full(stated)}")
        if not self.least <= stated <= self.most:
            raise _error(f"{_shown(stated)} is out of range: write {self.least} to {self.most:,}")
        return Count(stated, _provenance(origin)) if origin else stated


Bytes = Annotated[float, Quantity(Dimension.BYTES)]
BytesPerSecond = Annotated[float, Quantity(Dimension.BYTES_PER_S)]
FlopPerSecond = Annotated[float, Quantity(Dimension.FLOP_PER_S)]
Seconds = Annotated[float, Quantity(Dimension.SECONDS)]
Delay = Annotated[float, Quantity(Dimension.SECONDS, zero=True)]
"""A time that may be none at all: a latency, a pause, what a fit adds."""
Hertz = Annotated[float, Quantity(Dimension.HERTZ)]
Watts = Annotated[float, Quantity(Dimension.WATTS)]
Tokens = Annotated[float, Quantity(Dimension.TOKENS)]
Usd = Annotated[float, Quantity(Dimension.USD)]
UsdPerGpuHour = Annotated[float, Quantity(Dimension.USD_PER_GPU_HOUR, zero=True)]
Positive = Annotated[int, Whole(1)]
NotNegative = Annotated[int, Whole(0)]
SequenceTokens = Annotated[int, Whole(1, MOST_TOKENS)]
Sequences = Annotated[int, Whole(1, MOST_SEQUENCES)]
Layers = Annotated[int, Whole(1, MOST_LAYERS)]
InANode = Annotated[int, Whole(1, MOST_IN_A_NODE)]
Steps = Annotated[int, Whole(1, MOST_STEPS)]
Seed = Annotated[int, Whole(0, MOST_SEED)]
Ratio = Annotated[float, Field(gt=0, le=1)]
PositiveNumber = Annotated[float, Field(gt=0, le=MOST)]
NotNegativeNumber = Annotated[float, Field(ge=0, le=MOST)]


def dimension_of(*parts: Any) -> Dimension | None:
    """That of the quantity in an annotation or its metadata, which may be optional or a table."""
    within = (inner for part in parts for inner in parts_of(part))
    return next((inner.dimension for inner in within if isinstance(inner, Quantity)), None)


def parts_of(annotation: Any) -> Iterator[Any]:
    """An annotation, and the types and metadata of which it is made."""
    yield annotation
    for part in get_args(annotation):
        yield from parts_of(part)


def _lists_words(annotation: Any) -> bool:
    """True for a list of words that are known: tuple[Literal[...], ...]."""
    several = get_origin(annotation) is tuple
    return several and any(get_origin(one) is Literal for one in parts_of(annotation))


def part_of(annotation: Any) -> type[Description] | None:
    """The description in an annotation such as `Spikes` or `Spikes | None`; None for a list."""
    if get_origin(annotation) is tuple:
        return None
    for inner in (annotation, *get_args(annotation)):
        if isinstance(inner, type) and issubclass(inner, Description):
            return inner
    return None


def _in_unit(stated: Any, dimension: Dimension, *, table: bool = False) -> Any:
    """A bare number, or each one of a `table`, as a quantity in SI units; the rest as it is."""
    if table and isinstance(stated, dict):
        return {key: _in_unit(value, dimension) for key, value in stated.items()}
    if type(stated) in (int, float) and 0 <= stated < float("inf"):
        return SourcedNumber(stated, dimension, Provenance())
    return stated


def _in_file(info: ValidationInfo) -> bool:
    return bool(info.context and info.context.get("in_file"))


def _split(value: Any, info: ValidationInfo) -> tuple[Any, dict[str, Any]]:
    """The number as stated, and what is said about where it comes from."""
    default = (info.context or {}).get("provenance") or {}
    if not isinstance(value, dict):
        return value, dict(default)
    unknown = [key for key in value if key not in _ORIGIN_KEYS]
    if unknown:
        keys = ", ".join(_ORIGIN_KEYS)
        raise _error(f'unknown key "{unknown[0]}" beside a value; known: {keys}')
    if "value" not in value:
        raise _error('"value" is missing')
    return value["value"], default | {key: value[key] for key in value if key != "value"}


def _provenance(origin: dict[str, Any]) -> Provenance:
    fields = dict(origin)
    trust = fields.pop("trust", Trust.ASSUMED)
    if trust not in list(Trust):
        raise _error(f'unknown trust "{trust}": write one of {", ".join(Trust)}')
    others = fields.pop("others", ())
    texts = {key: str(text) for key, text in fields.items() if text is not None}
    unknown = sorted(set(texts) - {"source", "date", "note", "stated"})
    if unknown:
        raise _error(f'unknown key "{unknown[0]}" in the provenance')
    if not isinstance(others, (list, tuple)):
        raise _error('"others" must be a list of strings')
    return Provenance(Trust(trust), others=tuple(map(str, others)), **texts)


def _parsed(text: str, dimension: Dimension) -> float:
    try:
        return units.parse(text, dimension)
    except ValueError as error:
        raise _error(str(error)) from None


def _error(message: str) -> PydanticCustomError:
    return PydanticCustomError("syncwall", "{message}", {"message": message})


def is_open(description: Description, name: str) -> bool:
    """True if nobody stated this field of `description`."""
    return getattr(description, name) is None


def faults(found: Sequence[tuple[tuple[str | int, ...], str]]) -> PydanticCustomError:
    """One error for several faults, each with the keys that lead to it."""
    message = "; ".join(f"{'.'.join(map(str, path))}: {reason}" for path, reason in found)
    return PydanticCustomError("syncwall", "{message}", {"message": message, "faults": list(found)})


def _shown(number: float) -> str:
    """A number as it was given; Python refuses to write one of thousands of digits."""
    return "a number of many digits" if 1e40 < abs(number) < float("inf") else str(number)


def _kind(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", bool: "true or false", type(None): "nothing"}
    return names.get(type(value), f'"{value}"')


def _in_full(value: Any) -> str:
    """What to write in the place of "128k": tokens are counted in both ways."""
    short = re.fullmatch(r"(\d{1,6})[kK]", value) if isinstance(value, str) else None
    return f": write {int(short[1]) * 1024} or {int(short[1]) * 1000}" if short else ""


def _in_our_words(error: ValidationError, described: type[Description]) -> ValidationError:
    """`error`, which says what to write instead, as it would of a file."""
    lines = error.errors(include_url=False, include_context=False)
    if all(line["type"] in ("syncwall", "value_error") for line in lines):
        return error
    said = [
        InitErrorDetails(type=_error(words), loc=path, input=None)
        for path, words in faults_of(error, described)
    ]
    return ValidationError.from_exception_data(error.title, said, hide_input=True)
