from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.model.errors import ExternalError
from tidegate.taskmanager.spark.java import check_java, find_java, parse_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ('openjdk version "22-ea"', 22),
        ("command not found", None),
    ],
)
def test_version(text: str, version: int | None) -> None:
    assert parse_version(text) == version


def fake_java(home: Path, says: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n", encoding="utf-8")
    program.chmod(0o755)
    return program


def test_java_of_java_home_wins(tmp_path: Path) -> None:
    program = fake_java(tmp_path, 'openjdk version "17.0.1"')
    assert find_java(str(tmp_path)) == program
    assert check_java(program) == 17


def test_too_old_a_java_is_named(tmp_path: Path) -> None:
    program = fake_java(tmp_path, 'java version "1.8.0_392"')
    with pytest.raises(ExternalError, match=r"is Java 8. Spark needs Java 17 or newer: install one"):
        check_java(program)


def test_no_java_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExternalError, match="there is no java on the PATH, and JAVA_HOME is not set"):
        find_java("")
    with pytest.raises(ExternalError, match=r"JAVA_HOME is .*, but .*java cannot be run"):
        find_java(str(tmp_path))


def test_something_else_called_java_is_shown(tmp_path: Path) -> None:
    with pytest.raises(ExternalError, match="says 'I am a teapot', which is no version"):
        check_java(fake_java(tmp_path, "I am a teapot"))
