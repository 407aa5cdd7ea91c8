import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncwall import units
from syncwall.units import Dimension, parse

ANY_DIMENSION = st.sampled_from(list(Dimension))
NOT_NEGATIVE = st.floats(min_value=0, max_value=1e300, allow_subnormal=False)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("400Gb/s", Dimension.BYTES_PER_S, 50e9),
        ("400 Gbit/s", Dimension.BYTES_PER_S, 50e9),
        ("50 GB/s", Dimension.BYTES_PER_S, 50e9),
        ("900 GB/s duplex", Dimension.BYTES_PER_S, 450e9),
        ("3.35 TB/s", Dimension.BYTES_PER_S, 3.35e12),
        ("80GiB", Dimension.BYTES, 80 * 2**30),
        ("80 GB", Dimension.BYTES, 80e9),
        ("989 TFLOP/s", Dimension.FLOP_PER_S, 989e12),
        ("1.8e25 FLOP", Dimension.FLOP, 1.8e25),
        ("2.5us", Dimension.SECONDS, 2.5e-6),
        ("2.5 µs", Dimension.SECONDS, 2.5e-6),
        ("90 min", Dimension.SECONDS, 5400.0),
        ("54 days", Dimension.SECONDS, 54 * 86400.0),
        ("15T tokens", Dimension.TOKENS, 15e12),
        ("15T", Dimension.TOKENS, 15e12),
        ("300 tokens", Dimension.TOKENS, 300.0),
        ("2,000,000", Dimension.TOKENS, 2e6),
        ("1,500B tokens", Dimension.TOKENS, 1.5e12),
        ("$2,000,000", Dimension.USD, 2e6),
        ("300", Dimension.TOKENS, 300.0),
        ("$2.99/GPU-hour", Dimension.USD_PER_GPU_HOUR, 2.99),
        ("$1.5M", Dimension.USD, 1.5e6),
        ("1.83 GHz", Dimension.HERTZ, 1.83e9),
        ("700 W", Dimension.WATTS, 700.0),
    ],
)
def test_quantities_as_people_write_them(text, dimension, value):
    assert parse(text, dimension) == value


@pytest.mark.parametrize(
    ("text", "dimension", "advice"),
    [
        ("400GBps", Dimension.BYTES_PER_S, 'bits or bytes: write "400Gb/s" or "400GB/s"'),
        ("400 Gbps", Dimension.BYTES_PER_S, 'bits or bytes: write "400Gb/s" or "400GB/s"'),
        ("5e10", Dimension.BYTES_PER_S, 'no unit: write "50 GB/s" if that is meant'),
        ("400", Dimension.FLOP_PER_S, 'no unit: write "400 FLOP/s" if that is meant'),
        ("989 TFLOPS", Dimension.FLOP_PER_S, 'write "989 TFLOP" or "989 TFLOP/s"'),
        ("50 gb/s", Dimension.BYTES_PER_S, 'did you mean "50 GB/s" or "50 Gb/s"?'),
        ("4 KB", Dimension.BYTES, 'write "4 kB" or "4 KiB"'),
        ("5 m", Dimension.SECONDS, 'write "5 min" or "5 ms"'),
        ("80 GB", Dimension.BYTES_PER_S, "is an amount of data, not a data rate"),
        ("50 GB/s", Dimension.BYTES, "is a data rate, not an amount of data"),
        ("900 GB/s bidirectional", Dimension.BYTES_PER_S, 'write "900 GB/s duplex"'),
        ("80 GB duplex", Dimension.BYTES, 'unknown unit "GB duplex"'),
        ("2.99", Dimension.USD_PER_GPU_HOUR, 'write for example "$2.99/GPU-hour"'),
        ("$2.99", Dimension.USD_PER_GPU_HOUR, 'write for example "$2.99/GPU-hour"'),
        ("$5", Dimension.TOKENS, 'write for example "15T tokens"'),
        ("-3 s", Dimension.SECONDS, "is not a time"),
        ("1,979 TFLOP/s", Dimension.FLOP_PER_S, "unknown unit"),
        ("1e400 GB", Dimension.BYTES, "too large"),
        ("1e999999999 GB", Dimension.BYTES, "unknown unit"),
        ("", Dimension.BYTES, "is not an amount of data"),
    ],
)
def test_ambiguous_text_is_refused_with_what_to_write(text, dimension, advice):
    with pytest.raises(ValueError, match=r".") as caught:
        parse(text, dimension)
    assert advice in str(caught.value)


@given(NOT_NEGATIVE, ANY_DIMENSION)
def test_reading_what_was_written_gives_the_same_number(value, dimension):
    assert parse(units.format(value, dimension), dimension) == value


@given(NOT_NEGATIVE, st.sampled_from(["Gb/s", "GB/s", "GiB/s", "Mbit/s"]))
def test_a_forced_unit_loses_nothing(value, unit):
    text = units.format(value, Dimension.BYTES_PER_S, unit=unit)
    assert text.endswith(unit)
    assert parse(text, Dimension.BYTES_PER_S) == value


@given(st.decimals(min_value=0, max_value=10**6, places=6), st.sampled_from("kMGTPE"))
def test_a_byte_is_eight_bits_and_a_prefix_is_a_power_of_ten(number, prefix):
    exact = Fraction(number) * 1000 ** ("kMGTPE".index(prefix) + 1)
    assert parse(f"{number:f} {prefix}B", Dimension.BYTES) == float(exact)
    assert parse(f"{number:f} {prefix}b", Dimension.BYTES) == float(exact / 8)


@given(st.integers(min_value=0, max_value=10**6), st.sampled_from("KMGTPE"))
def test_a_binary_prefix_is_a_power_of_1024(number, prefix):
    exact = number * 1024 ** ("KMGTPE".index(prefix) + 1)
    assert parse(f"{number} {prefix}iB", Dimension.BYTES) == exact


@given(NOT_NEGATIVE)
def test_duplex_is_half_of_the_same_text_one_way(value):
    text = units.format(value, Dimension.BYTES_PER_S)
    assert math.isclose(parse(text + " duplex", Dimension.BYTES_PER_S), value / 2, abs_tol=1e-300)


@given(NOT_NEGATIVE, ANY_DIMENSION, st.integers(1, 6))
def test_rounded_text_is_near_and_short(value, dimension, digits):
    text = units.format(value, dimension, digits=digits)
    assert math.isclose(parse(text, dimension), value, rel_tol=0.5 * 10 ** (1 - digits) * 1.001)


@given(st.text(max_size=60), ANY_DIMENSION)
def test_any_text_is_read_or_refused_in_words(text, dimension):
    try:
        assert parse(text, dimension) >= 0
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right, a third is not


@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan])
def test_only_finite_amounts_are_written(value):
    with pytest.raises(ValueError, match="is not a time"):
        units.format(value, Dimension.SECONDS)


@pytest.mark.parametrize("dimension", list(Dimension))
def test_every_example_can_be_read(dimension):
    assert parse(dimension.value, dimension) > 0
