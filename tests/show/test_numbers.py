import pytest

from syncwall.show.numbers import energy, money, span


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(40, "40 s"), (600, "10 min"), (11_124, "3.09 h"), (54 * 86400, "54 days"),
     (1234 * 86400, "1,234 days"), (float("inf"), "never")],
)  # fmt: skip
def test_times(seconds, text):
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [(8.41, "$8.41"), (12_345, "$12.3k"), (30_640_519, "$30.6M"), (2.5e9, "$2.5B"),
     (float("inf"), "–")],
)  # fmt: skip
def test_money(usd, text):
    assert money(usd) == text


@pytest.mark.parametrize(
    ("joules", "text"),
    [(3.6e6, "1 kWh"), (3.6e10, "10 MWh"), (1.656e14, "46 GWh"), (float("inf"), "–")],
)
def test_energy(joules, text):
    assert energy(joules) == text
