"""The archive of the classes of Spark's JVM, with real JVMs: it is made, mapped, and no start fails for one that is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.class_archive import QUICK_JVM
from tidegate.taskmanager.spark import archive_maker
from tidegate.taskmanager.spark.class_archive import ClassArchive, prepared
from tidegate.taskmanager.spark.cluster.session_settings import SessionSettings
from tidegate.taskmanager.spark.session import archive_of_classes, start_session


@pytest.fixture(scope="module", autouse=True)
def _no_archive_of_the_tests() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SPARK_SUBMIT_OPTS", raising=False)
        patch.setenv("JDK_JAVA_OPTIONS", QUICK_JVM)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> ClassArchive:
    folder = tmp_path_factory.mktemp("home") / "classes"
    assert prepared(folder)
    archive = archive_of_classes(SessionSettings(folder, archives=folder))
    assert archive is not None
    assert archive_maker.make(archive), archive.failure.read_text() if archive.failure.exists() else ""
    return archive


def maps_it(directory: Path, archive: ClassArchive) -> bool:
    """Starts a session that may use the archive, and runs a Spark job in it; returns whether its JVM has mapped the archive."""
    session = start_session(SessionSettings(directory, "local[2]", archives=archive.folder))
    try:
        session.warm_up(1)
        return str(archive.file) in Path(f"/proc/{session.jvm_pid}/maps").read_text()
    finally:
        session.close()


def test_the_next_jvm_maps_what_was_made(made: ClassArchive, tmp_path: Path) -> None:
    assert made.is_usable()
    assert made.file.stat().st_mode & 0o777 == 0o600
    assert maps_it(tmp_path / "spark", made)


def test_a_jvm_starts_without_an_archive_that_is_cut_off_or_another_file(made: ClassArchive, tmp_path: Path) -> None:
    content = made.file.read_bytes()
    try:
        for number, damaged in enumerate((content[: len(content) // 2], b"", b"no archive\n" * 1000)):
            made.file.write_bytes(damaged)
            assert not maps_it(tmp_path / str(number), made)
    finally:
        made.file.write_bytes(content)


def test_a_jvm_starts_when_the_middle_of_its_archive_was_overwritten(made: ClassArchive, tmp_path: Path) -> None:
    content = made.file.read_bytes()
    middle = len(content) // 3
    made.file.write_bytes(content[:middle] + bytes(middle) + content[2 * middle :])
    assert not maps_it(tmp_path / "spark", made)
    assert not made.file.exists()
