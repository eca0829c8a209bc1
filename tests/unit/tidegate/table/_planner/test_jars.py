"""Java and the jars: one clear error for each that is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.table._planner import jars
from tidegate.table._planner.errors import PlannerUnavailable

NAMES = (
    "flink-dist", "flink-table-api-java-uber", "flink-table-planner-loader", "flink-table-runtime", "flink-cep", "flink-csv",
    "log4j-api", "log4j-core", "log4j-slf4j-impl",
)  # fmt: skip


def folder(path: Path, version: str = "2.3.0", without: str = "") -> Path:
    lib = path / "lib"
    lib.mkdir()
    for name in NAMES:
        if name != without:
            (lib / f"{name}-{version if name.startswith('flink') else '2.25.3'}.jar").touch()
    return lib


def test_only_what_planning_needs_is_on_the_class_path(tmp_path: Path) -> None:
    found = jars.jars_of(folder(tmp_path))
    assert found.version == "2.3.0"
    assert found.planner_loader.name == "flink-table-planner-loader-2.3.0.jar"
    assert "flink-csv-2.3.0.jar" not in {path.name for path in found.others}
    assert {path.name for path in found.others} >= {"flink-dist-2.3.0.jar", "flink-cep-2.3.0.jar"}


def test_a_jar_that_is_missing_is_named(tmp_path: Path) -> None:
    lib = folder(tmp_path, without="flink-table-runtime")
    with pytest.raises(
        PlannerUnavailable, match=r'flink-table-runtime is missing in .*lib: pip install "tidegate\[table\]"'
    ):
        jars.jars_of(lib)


@pytest.mark.parametrize("version", ["2.2.1", "1.20.0", "2.4.0"])
def test_jars_of_another_version_are_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(PlannerUnavailable, match=f"of Flink {version}; plans of 2.3 can be run"):
        jars.jars_of(folder(tmp_path, version))


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "PACKAGE", "no-such-package-of-flink")
    with pytest.raises(PlannerUnavailable, match=r'is not installed: pip install "tidegate\[table\]"'):
        jars.find_jars({})


def test_a_flink_of_ones_own_is_found_by_its_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jars, "PACKAGE", "no-such-package-of-flink")
    folder(tmp_path)
    assert jars.find_jars({"FLINK_HOME": str(tmp_path)}).planner_loader.parent == tmp_path / "lib"
    with pytest.raises(PlannerUnavailable, match="there is no folder"):
        jars.find_jars({"FLINK_HOME": str(tmp_path / "elsewhere")})


def test_without_java_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(PlannerUnavailable, match="no java on the PATH: install Java 17 or newer"):
        jars.find_java({"PATH": str(tmp_path)})
    with pytest.raises(PlannerUnavailable, match=f"no java in JAVA_HOME={tmp_path}"):
        jars.find_java({"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)})


def test_an_old_java_is_refused(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    with pytest.raises(PlannerUnavailable, match="is Java 11; Flink's planner needs 17 or newer"):
        jars.find_java({"PATH": str(tmp_path)})
