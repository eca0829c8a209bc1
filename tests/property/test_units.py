"""Texts of durations and sizes round-trip, and no text makes a parser fail in another way than it says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.units import format_duration_ms, format_size_bytes, parse_duration_ms, parse_size_bytes

amounts = st.integers(min_value=0, max_value=2**63 - 1)


@given(amounts)
def test_a_duration_survives_its_text(value_ms: int) -> None:
    assert parse_duration_ms(format_duration_ms(value_ms)) == value_ms


@given(amounts)
def test_a_size_survives_its_text(value_bytes: int) -> None:
    assert parse_size_bytes(format_size_bytes(value_bytes)) == value_bytes


@given(st.integers(0, 10_000), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_an_iso_duration_is_the_sum_of_its_parts(
    days: int, hours: int, minutes: int, seconds: int, millis: int
) -> None:
    text = f"P{days}DT{hours}H{minutes}M{seconds}.{millis:03}S"
    assert parse_duration_ms(text) == (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + millis


@given(amounts, st.sampled_from(["ms", "s", "min", "h", "d"]), st.sampled_from(["", " ", "  "]))
def test_case_and_spaces_do_not_matter(amount: int, unit: str, space: str) -> None:
    assert parse_duration_ms(f" {amount}{space}{unit.upper()} ") == parse_duration_ms(f"{amount}{unit}")


@given(st.text())
def test_any_text_is_either_a_value_or_a_value_error(text: str) -> None:
    for parse in (parse_duration_ms, parse_size_bytes):
        try:
            value = parse(text)
        except ValueError:
            continue
        assert value >= 0
