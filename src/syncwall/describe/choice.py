"""Options that are words to people and small numbers to arrays.

Holds `Choice` (an ordered option), `Dtype` (a number format) and `text_of`.
"""

from enum import IntEnum, StrEnum
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

from syncwall.problems import did_you_mean


class Choice(IntEnum):
    """An option written as a word in files and stored as an integer, so that arrays can hold it.

    A second member with the value of the first is another word for the same thing.
    """

    def __repr__(self) -> str:
        return repr(self.text)

    @property
    def text(self) -> str:
        """The word for this option in files and on the command line."""
        return _text(self.name)

    @classmethod
    def words(cls) -> list[str]:
        """Every accepted word."""
        return [_text(name) for name in cls.__members__]

    @classmethod
    def read(cls, value: Any) -> "Choice":
        """The option that `value` names (or already is)."""
        if isinstance(value, cls):
            return value
        for name, member in cls.__members__.items():
            if isinstance(value, str) and _text(name) == value.lower().replace("_", "-"):
                return member
        hint = did_you_mean(str(value), cls.words()) or f"; known: {', '.join(cls.words())}"
        message = f'unknown {_spoken(cls.__name__)} "{value}"{hint}'
        raise PydanticCustomError("syncwall", "{message}", {"message": message})

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.read,
            serialization=core_schema.plain_serializer_function_ser_schema(lambda c: c.text),
        )


def _text(name: str) -> str:
    return name.lower().replace("_", "-").replace("one-f-one-b", "1f1b")


def _spoken(name: str) -> str:
    return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()


def text_of(value: Any) -> str:
    """The value of a field as a run file and a flag write it."""
    if isinstance(value, bool):
        return str(value).lower()
    return (
        f"[{', '.join(value)}]" if isinstance(value, tuple) else str(getattr(value, "text", value))
    )


class Dtype(StrEnum):
    """A number format."""

    FP64 = "fp64"
    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    MXFP8 = "mxfp8"
    FP6 = "fp6"
    FP4 = "fp4"
    NVFP4 = "nvfp4"
    INT8 = "int8"

    def __repr__(self) -> str:
        return repr(self.value)

    @property
    def size_bytes(self) -> float:
        """Bytes of one element, without scaling factors (blocks of MX and NV formats share one)."""
        return {"64": 8.0, "32": 4.0, "16": 2.0, "p8": 1.0, "t8": 1.0, "p6": 0.75, "p4": 0.5}[
            self.value[-2:]
        ]
