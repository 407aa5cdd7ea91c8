"""Keys of a run in words: every field of a layout has some, and none is stale."""

import pytest

from syncwall.describe import Layout, Run
from syncwall.show.field_words import KEYS, VALUES, field_words, key_words


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("tp", 8, "tp 8 (tensor parallel)"),
        ("sp", True, "sequence parallelism"),
        ("sp", False, "no sequence parallelism"),
        ("shard", "fsdp", "shard with FSDP (ZeRO-3)"),
        ("virtual_stages", 1, "do not interleave stages"),
        ("virtual_stages", 4, "interleave 4 virtual stages a rank"),
        ("global_batch", 512, "batch 512"),
        ("micro_batch", 2, "micro batch 2"),
    ],
)
def test_a_field_in_words(key, value, words):
    assert field_words(key, value) == words


def test_a_key_in_words():
    assert key_words("layout.shard") == "data-parallel sharding"
    assert key_words("software.kernels") == "kernels"


def test_words_are_of_fields_that_there_are():
    assert {*KEYS, *VALUES} <= {*Layout.model_fields, *Run.model_fields, "gpus"}
