"""What functions give to list and map state."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.common import Types
from tidegate.taskmanager.state.function_state import BroadcastEntries, ElementList
from tidegate.taskmanager.state.given import elements_of, items_of
from tidegate.taskmanager.state.map_keys import MapKeys


def test_a_list_is_taken_as_it_is_and_others_are_made_one() -> None:
    given = [1]
    assert elements_of(given) is given
    assert elements_of({1: 2}.keys()) == [1]
    assert elements_of(one for one in "ab") == ["a", "b"]


@pytest.mark.parametrize("given", [None, 5, True])
def test_what_has_no_elements_is_refused_with_what_to_do(given: Any) -> None:
    with pytest.raises(TypeError, match=rf"ListState takes a list of elements, not {given}: .*clear\(\)"):
        elements_of(given)
    with pytest.raises(TypeError, match=rf"put_all takes a dict, not {given}"):
        items_of(given)


def test_a_map_has_no_entry_for_none() -> None:
    entries = {"a": None}
    assert items_of(entries) is entries
    assert items_of(entries.items()) == [("a", None)]
    with pytest.raises(TypeError, match="no entry for the key None, so its value cannot be set to 1"):
        items_of({"a": 0, None: 1})
    with pytest.raises(TypeError, match="no entry for the key None, so its value cannot be set to 1"):
        items_of([("a", 0), (None, 1)])


def test_operator_state_is_not_changed_by_what_is_refused() -> None:
    elements, entries = ElementList([1]), BroadcastEntries([("a", 1)], MapKeys(Types.STRING(), "state"))
    for refused in (elements.update, elements.add_all, entries.put_all):
        with pytest.raises(TypeError):
            refused(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="None"):
        entries.put(None, 1)
    assert (list(elements.get()), list(entries.items())) == ([1], [("a", 1)])
