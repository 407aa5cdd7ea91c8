import pytest

from syncwall.show.numbers import (
    byte_size,
    duration,
    energy,
    money,
    percent,
    plural,
    signed,
    signed_percent,
    span,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (40, "40 s"),
        (600, "10 min"),
        (11_124, "3.09 h"),
        (54 * 86400, "54 days"),
        (1234 * 86400, "1,234 days"),
        (float("inf"), "never"),
    ],
)
def test_times(seconds, text):
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.775, "775 ms"), (999.0, "999 s"), (1500.0, "25 min"), (13.8e6, "160 days")]
)
def test_long_times_are_not_counted_in_seconds(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [(8.41, "$8.41"), (12_345, "$12.3k"), (30_640_519, "$30.6M"), (2.5e9, "$2.5B"), (float("inf"), "–")],
)
def test_money(usd, text):
    assert money(usd) == text


@pytest.mark.parametrize(
    ("joules", "text"),
    [(3.6e6, "1 kWh"), (3.6e10, "10 MWh"), (1.656e14, "46 GWh"), (float("inf"), "–")],
)
def test_energy(joules, text):
    assert energy(joules) == text


def test_one_minus_sign_and_one_style_of_per_cent():
    assert (percent(0.131), percent(0.1249, 1), percent(-0.02)) == ("13%", "12.5%", "−2%")
    assert (signed_percent(0.05), signed_percent(-0.031)) == ("+5.0%", "−3.1%")
    assert (signed(1.25), signed(-0.3)) == ("+1.25 s", "−300 ms")


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 steps"), (1, "1 step"), (2, "2 steps"), (2048, "2,048 steps")]
)
def test_counts_of_things(count, text):
    assert plural(count, "step") == text
    assert plural(count, "switch", "switches").endswith("switch") == (count == 1)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (2**20, "1 MiB"),
        (25 * 2**20, "25 MiB"),
        (1e6, "1 MB"),
        (512, "512 B"),
        (852000 * 1024, "872 MB"),
    ],
)
def test_sizes(count, text):
    assert byte_size(count) == text
