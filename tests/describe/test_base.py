import copy
import pickle

import pytest
from pydantic import Field, ValidationError

from syncwall.describe.base import (
    OPEN,
    Bytes,
    BytesPerSecond,
    Count,
    Description,
    FlopPerSecond,
    Open,
    Positive,
    SourcedNumber,
    Tokens,
    Trust,
    is_open,
)
from syncwall.units import Dimension


class Thing(Description):
    rate_bytes_per_s: BytesPerSecond = Field(alias="rate")
    size_bytes: Bytes | None = Field(None, alias="size")
    tokens: Tokens | None = None
    count: Positive = 1
    peak_flop_per_s: dict[str, FlopPerSecond] = Field(default_factory=dict, alias="peak")
    chosen: Open[Positive] = OPEN


IN_FILE = {"in_file": True}


def test_text_becomes_si():
    assert Thing(rate_bytes_per_s="400Gb/s").rate_bytes_per_s == 50e9


def test_python_may_pass_a_bare_number_where_the_name_has_the_unit():
    assert Thing(rate_bytes_per_s=50e9).rate_bytes_per_s == 50e9


@pytest.mark.parametrize("value", [5e10, 50])
def test_a_file_may_not(value):
    with pytest.raises(ValidationError, match="has no unit"):
        Thing.model_validate({"rate": value}, context=IN_FILE)


def test_a_file_may_where_the_name_has_the_unit():
    """As JSON output writes them: plain, optional, and in a table."""
    stated = {"rate_bytes_per_s": 5e10, "size_bytes": 8, "peak_flop_per_s": {"bf16": 1e15}}
    thing = Thing.model_validate(stated, context=IN_FILE)
    assert (thing.rate_bytes_per_s, thing.size_bytes) == (5e10, 8)
    assert thing.peak_flop_per_s == {"bf16": 1e15}
    assert isinstance(thing.size_bytes, SourcedNumber)
    assert thing.size_bytes.dimension is Dimension.BYTES
    assert Thing.model_validate(thing.model_dump(exclude_none=True), context=IN_FILE) == thing


@pytest.mark.parametrize(
    "stated",
    [
        {"rate_bytes_per_s": -1.0},
        {"rate_bytes_per_s": float("inf")},
        {"rate_bytes_per_s": float("nan")},
        {"rate_bytes_per_s": True},
        {"rate_bytes_per_s": "5e10"},
        {"rate": "1 GB/s", "peak": {"bf16": 1e15}},
        {"rate": "1 GB/s", "size": 8},
        {"rate_bytes_per_s": {"value": 5e10}},
    ],
)
def test_other_numbers_without_a_unit_are_refused(stated):
    with pytest.raises(ValidationError):
        Thing.model_validate(stated, context=IN_FILE)


def test_an_open_field_is_none_until_it_is_stated():
    assert is_open(Thing(rate_bytes_per_s=1.0), "chosen")
    assert is_open(Thing(rate_bytes_per_s=1.0, chosen=None), "chosen")
    stated = Thing(rate_bytes_per_s=1.0, chosen=3)
    assert not is_open(stated, "chosen")
    assert is_open(stated.model_copy(update={"chosen": OPEN}), "chosen")
    with pytest.raises(ValidationError):
        Thing(rate_bytes_per_s=1.0, chosen=0)


def test_a_number_of_tokens_needs_no_unit():
    thing = Thing.model_validate({"rate": "1 GB/s", "tokens": 300}, context=IN_FILE)
    assert thing.tokens == 300


@pytest.mark.parametrize("value", [True, None, [1], {}, {"value": None}, -1.0, float("inf")])
def test_what_is_no_quantity_is_refused(value):
    with pytest.raises(ValidationError):
        Thing.model_validate({"rate": value})


@pytest.mark.parametrize("value", [True, 1.5, "3", 0, -1, 2**70])
def test_what_is_no_count_is_refused(value):
    with pytest.raises(ValidationError):
        Thing.model_validate({"rate": "1 GB/s", "count": value})


def test_a_number_can_say_where_it_comes_from():
    origin = {"value": "900 GB/s duplex", "trust": "datasheet", "source": "x", "note": "y"}
    rate = Thing.model_validate({"rate": origin}).rate_bytes_per_s
    assert isinstance(rate, SourcedNumber)
    assert rate == 450e9
    assert rate.provenance.trust is Trust.DATASHEET
    assert rate.provenance.stated == "900 GB/s duplex"
    assert (rate.provenance.source, rate.provenance.note) == ("x", "y")


def test_numbers_take_the_origin_of_their_file():
    context = {"provenance": {"source": "x", "trust": "measured"}}
    thing = Thing.model_validate({"rate": "1 GB/s", "count": 3}, context=context)
    assert isinstance(thing.count, Count)
    assert isinstance(thing.rate_bytes_per_s, SourcedNumber)
    assert thing.count.provenance.source == thing.rate_bytes_per_s.provenance.source == "x"


@pytest.mark.parametrize("origin", [{"trust": "sure"}, {"sauce": "x"}, {"others": "x"}])
def test_an_origin_that_makes_no_sense_is_refused(origin):
    with pytest.raises(ValidationError):
        Thing.model_validate({"rate": {"value": "1 GB/s", **origin}})


def test_figures_compute_like_floats_and_survive_copies():
    rate = Thing.model_validate({"rate": {"value": "1 GB/s", "source": "x"}}).rate_bytes_per_s
    assert isinstance(rate, SourcedNumber)
    assert type(rate * 2) is float
    assert rate.text == "1 GB/s"
    for twin in (copy.deepcopy(rate), pickle.loads(pickle.dumps(rate))):
        assert (twin, twin.provenance, twin.dimension) == (
            rate,
            rate.provenance,
            Dimension.BYTES_PER_S,
        )


def test_descriptions_do_not_change():
    thing = Thing(rate_bytes_per_s=1.0)
    with pytest.raises(ValidationError):
        thing.count = 2  # type: ignore[misc]
