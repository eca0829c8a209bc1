"""Imports go one way, between modules and between the folders of a package. Those for type checkers count too."""

from __future__ import annotations

import pytest

from docs._pages.folder_imports import circles, drawing, folders, imports, packages
from docs._pages.module_map import DRAWN


def test_modules_import_each_other_one_way() -> None:
    assert circles(imports()) == []


def test_rooms_of_a_folder_import_each_other_one_way() -> None:
    found = {package: circles(folders(imports(), package)) for package in packages()}
    assert {package: circle for package, circle in found.items() if circle} == {}


@pytest.mark.parametrize("container", DRAWN)
def test_no_arrow_of_a_drawing_goes_up(container: str) -> None:
    above: set[str] = set()
    lines = list(drawing(folders(imports(), container)))
    for line in lines:
        folder, _, others = line.partition("─▶")
        assert not above & set(others.split()), line
        above.add(folder.strip())
    assert len(above) == len(lines)


def test_a_circle_is_found_and_cannot_be_drawn() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set[str]()}
    assert circles(graph) == [["a", "b", "c"]]
    with pytest.raises(ValueError, match="a', 'b', 'c"):
        list(drawing(graph))
