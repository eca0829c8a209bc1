"""Durations and sizes: the texts that Flink reads, and those that are refused."""

from __future__ import annotations

import pytest

from tidegate.model.units import format_duration_ms, format_size_bytes, parse_duration_ms, parse_size_bytes


@pytest.mark.parametrize(
    ("text", "value_ms"),
    [
        ("0", 0),
        ("250", 250),
        ("500ms", 500),
        ("500 ms", 500),
        (" 10 s ", 10_000),
        ("10sec", 10_000),
        ("2 min", 120_000),
        ("2 m", 120_000),
        ("1 H", 3_600_000),
        ("3 days", 259_200_000),
        ("2000 µs", 2),
        ("1000000 ns", 1),
        ("PT10M", 600_000),
        ("pt0.02s", 20),
        ("P1DT2H3M4.5S", 93_784_500),
    ],
)
def test_a_duration_text_is_read_as_milliseconds(text: str, value_ms: int) -> None:
    assert parse_duration_ms(text) == value_ms


@pytest.mark.parametrize("text", ["", "s", "-1 s", "1.5 s", "10 parsecs", "1 s 2 ms", "P", "PT", "PT1", "P1H", "٣ s"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration.*'10 s'"):
        parse_duration_ms(text)


@pytest.mark.parametrize("text", ["1 µs", "999999 ns", "PT0.0001S"])
def test_a_duration_finer_than_a_millisecond_is_refused_and_not_rounded_to_zero(text: str) -> None:
    with pytest.raises(ValueError, match="finer than a millisecond"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "value_bytes"),
    [
        ("0", 0),
        ("4096", 4096),
        ("20 kb", 20_480),
        ("20KB", 20_480),
        ("64 m", 64 << 20),
        ("1 gb", 1 << 30),
        ("2 tebibytes", 2 << 40),
        ("256 bytes", 256),
    ],
)
def test_a_size_text_is_read_as_bytes_in_binary_units(text: str, value_bytes: int) -> None:
    assert parse_size_bytes(text) == value_bytes


@pytest.mark.parametrize("text", ["", "mb", "-1 kb", "1.5 gb", "10 pb", "1 gb 2 mb"])
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is not a memory size.*'64 mb'"):
        parse_size_bytes(text)


def test_values_are_written_in_the_highest_unit_that_divides_them() -> None:
    assert [format_duration_ms(n) for n in (0, 5, 1_000, 1_500, 600_000, 3_600_000, 172_800_000)] == [
        *("0 ms", "5 ms", "1 s", "1500 ms", "10 min", "1 h", "2 d"),
    ]
    assert [format_size_bytes(n) for n in (0, 1_000, 20_480, 1 << 30)] == ["0 bytes", "1000 bytes", "20 kb", "1 gb"]
