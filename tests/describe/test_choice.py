import pytest
from pydantic import TypeAdapter, ValidationError

from syncwall.describe.choice import Dtype
from syncwall.describe.layout import Schedule, Shard


def test_words_become_ordered_numbers():
    assert TypeAdapter(Shard).validate_python("fsdp") is Shard.FSDP
    assert int(Shard.FSDP) > int(Shard.ZERO1) == 1


def test_two_words_may_mean_the_same():
    assert Shard.read("zero3") is Shard.FSDP
    assert Shard.read("ZeRO3").text == "fsdp"


@pytest.mark.parametrize("schedule", list(Schedule))
def test_every_word_can_be_read_back(schedule):
    assert Schedule.read(schedule.text) is schedule


def test_an_unknown_word_is_refused_with_the_nearest():
    with pytest.raises(ValidationError, match='unknown shard "fsdb"; did you mean "fsdp"'):
        TypeAdapter(Shard).validate_python("fsdb")


def test_numbers_are_not_words():
    with pytest.raises(ValidationError, match="known: ddp, zero1, zero2, fsdp, zero3"):
        TypeAdapter(Shard).validate_python(3)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("fp32", 4), ("tf32", 4), ("bf16", 2), ("fp8", 1), ("int8", 1), ("nvfp4", 0.5), ("fp64", 8)],
)
def test_sizes_of_number_formats(dtype, size):
    assert Dtype(dtype).size_bytes == size
