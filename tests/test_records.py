"""What types publish, as plain data."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from syncwall.public import Answer, Endless, Late, Numbers, Part, published
from syncwall.records import SCHEMA_VERSION, json_data, plain


@dataclass(frozen=True, slots=True)
class Spoke:
    length: float


@published("size_m=size inner lengths=spokes.length")
@dataclass(frozen=True, slots=True)
class Wheel:
    size: float
    inner: "Wheel | None" = None
    spokes: tuple[Spoke, ...] = ()
    record = Late("records:plain")


@published("name doubled=twice size=wheel.size longest seen rates small")
@dataclass(frozen=True)
class Bicycle(Answer):
    verb = "ride"
    small = Part("name", text="Only its name.")
    record = Late("records:plain")
    name: str
    wheel: Wheel | None = None
    longest: Endless = float("inf")
    seen: datetime | None = None
    rates: Numbers = field(default_factory=lambda: np.array([1.0, np.inf]))

    def twice(self) -> float:
        return 4.0


def test_a_path_goes_on_with_the_parts_of_a_list():
    wheel = Wheel(2.0, Wheel(1.0), (Spoke(0.5), Spoke(0.25)))
    inner: dict[str, object] = {"size_m": 1.0, "inner": None, "lengths": []}
    assert plain(wheel) == {"size_m": 2.0, "inner": inner, "lengths": [0.5, 0.25]}


def test_an_answer_has_version_and_verb_and_what_is_endless_or_missing_is_none():
    made = Bicycle("a", seen=datetime(2027, 1, 1, tzinfo=UTC))
    keys = {
        "name": "a",
        "doubled": 4.0,
        "size": None,
        "longest": None,
        "seen": "2027-01-01T00:00:00+00:00",
        "rates": [1.0, None],
        "small": {"name": "a"},
    }
    assert made.to_dict() == {"schema_version": SCHEMA_VERSION, "verb": "ride"} | keys
    assert made.to_dict() == json_data("ride", made)
    assert list(made.to_dict())[2:] == list(keys)


def test_what_a_later_module_computes_is_computed_once_where_it_can_be_kept():
    made, wheel = Bicycle("a"), Wheel(1.0)
    assert made.record == plain(made)
    assert made.record is made.record
    assert wheel.record == plain(wheel)
    assert made == Bicycle("a", rates=made.rates)
