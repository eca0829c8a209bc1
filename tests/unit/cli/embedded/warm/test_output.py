from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.cli.embedded.warm.output import CopiedOutput


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    os.set_blocking(read, False)
    yield read, write
    os.close(read)


def test_what_is_settled_was_copied(pipe: tuple[int, int], tmp_path: Path) -> None:
    read, write = pipe
    with open(tmp_path / "out", "wb") as out:
        copied = CopiedOutput([read], [out.fileno()])
        for number in range(200):
            os.write(write, b"%d\n" % number)
            copied.settle()
            assert (tmp_path / "out").read_bytes().endswith(b"%d\n" % number)
        copied.close()
    os.close(write)
    assert (tmp_path / "out").read_bytes() == b"".join(b"%d\n" % number for number in range(200))


def test_it_is_copied_without_being_settled(pipe: tuple[int, int]) -> None:
    """More than both pipes hold: the writer waits for the reader."""
    read, write = pipe
    arrived, target = os.pipe()
    copied = CopiedOutput([read], [target])
    sent = b"x" * 50_000
    for _ in range(20):
        os.write(write, sent)
        left = len(sent)
        while left:
            left -= len(os.read(arrived, left))
    copied.close()
    for descriptor in (write, arrived, target):
        os.close(descriptor)


def test_lines_for_a_reader_that_is_gone_are_dropped(pipe: tuple[int, int]) -> None:
    read, write = pipe
    arrived, target = os.pipe()
    os.close(arrived)
    copied = CopiedOutput([read], [target])
    os.write(write, b"a line\n")
    copied.close()
    with pytest.raises(BlockingIOError):
        os.read(read, 1)
    os.close(write)
    os.close(target)


def test_it_ends_although_the_writers_have(pipe: tuple[int, int], tmp_path: Path) -> None:
    read, write = pipe
    with open(tmp_path / "out", "wb") as out:
        copied = CopiedOutput([read], [out.fileno()])
        os.write(write, b"the last\n")
        os.close(write)
        copied.settle()
        copied.close()
    assert (tmp_path / "out").read_bytes() == b"the last\n"
