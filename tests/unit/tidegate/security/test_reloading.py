"""What is read from files is read again when they change, and the last good value stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.model.errors import ConfigurationError
from tidegate.security.reloading import Reloaded


class Numbers:
    """A number in each file; their sum is the value."""

    def __init__(self, *paths: Path) -> None:
        self.paths, self.reads = paths, 0
        self.problems: list[str] = []

    def read(self) -> int:
        self.reads += 1
        try:
            return sum(int(path.read_text()) for path in self.paths)
        except (OSError, ValueError) as error:
            raise ConfigurationError(type(error).__name__) from None

    def reloaded(self) -> Reloaded[int]:
        return Reloaded(self.paths, self.read, lambda error: self.problems.append(str(error)))


@pytest.fixture
def numbers(tmp_path: Path) -> Numbers:
    for name in ("one", "two"):
        (tmp_path / name).write_text("1")
    return Numbers(tmp_path / "one", tmp_path / "two")


def put(path: Path, text: str) -> None:
    """In place of the file, at once."""
    other = path.with_suffix(".new")
    other.write_text(text)
    other.replace(path)


def test_it_is_read_once_while_nothing_changes(numbers: Numbers) -> None:
    value = numbers.reloaded()
    assert [value.get() for _ in range(5)] == [2] * 5
    assert numbers.reads == 1


def test_each_file_counts(numbers: Numbers) -> None:
    value = numbers.reloaded()
    for path in numbers.paths:
        put(path, "5")
        value.get()
    assert (value.get(), numbers.reads) == (10, 3)


def test_a_link_that_is_turned_is_another_file(tmp_path: Path) -> None:
    for name in ("..1", "..2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "number").write_text(name[-1])
    data = tmp_path / "..data"
    data.symlink_to("..1")
    numbers = Numbers(data / "number")
    value = numbers.reloaded()
    turned = tmp_path / "..tmp"
    turned.symlink_to("..2")
    turned.replace(data)
    assert value.get() == 2


def test_the_last_good_value_stays_and_a_problem_is_said_once(numbers: Numbers) -> None:
    value = numbers.reloaded()
    put(numbers.paths[0], "half of")
    assert [value.get(), value.get()] == [2, 2]
    assert numbers.problems == ["ValueError"]
    numbers.paths[0].unlink()
    assert (value.get(), numbers.problems) == (2, ["ValueError", "FileNotFoundError"])
    put(numbers.paths[0], "7")
    assert value.get() == 8


def test_without_a_first_value_it_fails(numbers: Numbers) -> None:
    numbers.paths[1].unlink()
    with pytest.raises(ConfigurationError):
        numbers.reloaded()
