"""Values that single changes try."""

import pytest

from syncwall.answer.improvements import divisors
from syncwall.answer.settled import virtual_stage_counts
from syncwall.cost.framework_costs import framework_or_default
from tests.describe.samples import model

MEGATRON = framework_or_default("megatron-core")


def test_divisors_are_all_of_them_in_order():
    for number in (1, 2, 12, 36, 97):
        assert divisors(number) == [n for n in range(1, number + 1) if number % n == 0]


@pytest.mark.parametrize(
    ("layers", "pp", "counts"),
    [
        (32, 4, [2, 4, 8]),
        (30, 4, [2, 4, 8]),  # with the embedding and the output layer 32
        (126, 16, [2, 4, 8]),  # Llama 3 405B, the same
        (80, 8, [2, 5, 10]),
        (61, 16, []),
    ],
)
def test_virtual_stages_cut_the_layers_evenly(layers, pp, counts):
    assert virtual_stage_counts(model(layers=layers), pp, MEGATRON, "2025-01") == counts


def test_layers_of_tokens_ahead_are_dealt_out_too():
    """DeepSeek-V3: 61 layers, embedding, one token ahead and the output layer are 64."""
    assert virtual_stage_counts(model(layers=61), 8, MEGATRON, "2025-01") == []
    assert virtual_stage_counts(model(layers=61, mtp_layers=1), 8, MEGATRON, "2025-01") == [2, 4, 8]


def test_stages_that_are_listed_need_not_be_even():
    """`--pipeline-model-parallel-layout` cuts 61 layers as Megatron-Bridge's recipes do."""
    assert virtual_stage_counts(model(layers=61), 4, MEGATRON, "2025-06") == [2, 4, 8]
    assert virtual_stage_counts(model(layers=61), 4, framework_or_default("torchtitan")) == []


def test_a_framework_without_interleaving_has_no_virtual_stages():
    assert virtual_stage_counts(model(layers=32), 4, framework_or_default("nanotron")) == []
