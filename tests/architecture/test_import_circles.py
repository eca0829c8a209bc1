"""Imports go one way, between modules and between the rooms of a folder. Those for type checkers alone do not count."""

from __future__ import annotations

import pytest

from docs._pages.module_map import DRAWN
from docs._pages.room_imports import circles, drawing, imports, packages, rooms

STREAMS = {
    "tidegate.datastream._streams.column_methods",
    "tidegate.datastream._streams.broadcast_stream",
    "tidegate.datastream._streams.cached_stream",
    "tidegate.datastream._streams.connected_streams",
    "tidegate.datastream._streams.interval_join",
    "tidegate.datastream._streams.joined_streams",
    "tidegate.datastream._streams.keyed_stream",
    "tidegate.datastream._streams.windowed_stream",
    "tidegate.datastream.data_stream",
}
"""The one circle: methods of a stream return streams of the other kinds, which extend it (one module in PyFlink, with 3,000 lines)."""
ROOMS_OF_STREAMS = {"tidegate.datastream", "tidegate.datastream._streams"}


def test_modules_import_each_other_one_way() -> None:
    assert [circle for circle in circles(imports()) if not STREAMS.issuperset(circle)] == []


def test_the_streams_are_still_a_circle() -> None:
    """Otherwise the exception goes."""
    assert circles(imports()) == [sorted(STREAMS)]


def test_rooms_of_a_folder_import_each_other_one_way() -> None:
    found = {package: circles(rooms(imports(), package)) for package in packages()}
    assert {package: circle for package, circle in found.items() if circle and package not in ROOMS_OF_STREAMS} == {}


@pytest.mark.parametrize("container", DRAWN)
def test_no_arrow_of_a_drawing_goes_up(container: str) -> None:
    above: set[str] = set()
    lines = list(drawing(rooms(imports(), container)))
    for line in lines:
        room, _, others = line.partition("─▶")
        assert not above & set(others.split()), line
        above.add(room.strip())
    assert len(above) == len(lines)


def test_a_circle_is_found_and_cannot_be_drawn() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set[str]()}
    assert circles(graph) == [["a", "b", "c"]]
    with pytest.raises(ValueError, match="a', 'b', 'c"):
        list(drawing(graph))
