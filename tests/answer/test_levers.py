"""Values that single changes try."""

import pytest

from syncwall.answer.improvements import divisors, virtual_stage_counts


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
    assert virtual_stage_counts(layers, pp) == counts
