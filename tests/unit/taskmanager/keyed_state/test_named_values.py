"""Values are found by their names, by mappings of each key as by a column of each name."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.taskmanager.keyed_state.named_values import of_columns, of_mappings

NAMES = ((4, 6), (0, 2), (2, 4))


@given(st.lists(st.dictionaries(st.sampled_from((*NAMES, (6, 8), None)), st.text(max_size=2), max_size=5), max_size=9))
def test_values_come_by_key_and_then_by_name(held: list[dict[object, str]]) -> None:
    expected = [
        (key, place, values[name])
        for key, values in enumerate(held)
        for place, name in enumerate(NAMES)
        if name in values
    ]
    for found in of_mappings(held, NAMES), of_columns([[values.get(name) for values in held] for name in NAMES]):
        assert list(zip(found.keys.tolist(), found.names.tolist(), found.values, strict=True)) == expected
