"""The archive of the classes of Spark's JVM: which one a JVM gets, who may have written it, and what a start does without it. No JVM runs here."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tidegate.model.errors import ExternalError
from tidegate.taskmanager.spark import archive_maker
from tidegate.taskmanager.spark.class_archive import KEPT, ClassArchive, archive_of, has_crashed, is_private, prepared
from tidegate.taskmanager.spark.cluster.session_settings import SessionSettings, session_properties
from tidegate.taskmanager.spark.session import start_session


@pytest.fixture
def java(tmp_path: Path) -> Path:
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.15\"' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "conf").mkdir()
    (tmp_path / "spark" / "jars" / "core.jar").write_bytes(b"jar")
    return tmp_path / "spark"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert prepared(tmp_path / "home" / "classes")
    return tmp_path / "home" / "classes"


def there(archive: ClassArchive, content: bytes = b"classes") -> ClassArchive:
    archive.file.write_bytes(content)
    archive.file.chmod(0o600)
    return archive


def test_what_a_jvm_is_started_with_has_an_archive_of_its_own(folder: Path, java: Path, spark: Path) -> None:
    def name(properties: dict[str, str] | None = None, environment: dict[str, str] | None = None) -> str:
        found = archive_of(folder, java, spark, properties or {}, environment or {})
        assert found is not None
        return found.file.name

    plain = name()
    assert name({"spark.executor.memory": "2g"}, {"LANG": "C"}) == plain
    others = {
        name({"spark.driver.extraClassPath": "/opt/a.jar"}),
        name({"spark.driver.memory": "40g"}),
        name(environment={"JDK_JAVA_OPTIONS": "-Xmx1g"}),
        name(environment={"SPARK_CONF_DIR": str(java.parent)}),
    }
    (spark / "conf" / "spark-defaults.conf").write_text("spark.driver.memory 2g")
    others.add(name())
    (spark / "jars" / "more.jar").write_bytes(b"jar")
    others.add(name())
    (java.parent.parent / "lib").mkdir()
    (java.parent.parent / "lib" / "modules").write_bytes(b"17.0.16")
    others.add(name())
    assert len(others - {plain}) == 7


@pytest.mark.parametrize(
    "option", ["-XX:SharedArchiveFile=/a.jsa", "-Xshare:off", "-javaagent:/a.jar", "-XX:AOTCache=/a"]
)
def test_a_user_who_shares_classes_in_another_way_gets_no_archive(
    folder: Path, java: Path, spark: Path, option: str
) -> None:
    assert archive_of(folder, java, spark, {"spark.driver.extraJavaOptions": option}, {}) is None
    assert archive_of(folder, java, spark, {}, {"SPARK_SUBMIT_OPTS": f"-Dx=1 {option}"}) is None


@pytest.mark.parametrize("name", ["a b", "a:b", 'a"b', "a$b"])
def test_a_path_that_cannot_be_an_option_of_a_jvm_has_none(tmp_path: Path, java: Path, spark: Path, name: str) -> None:
    assert archive_of(tmp_path / name, java, spark, {}, {}) is None


def test_only_an_archive_that_no_other_user_can_have_written_is_used(folder: Path) -> None:
    archive = ClassArchive(folder / "spark-1.jsa")
    assert not archive.is_usable()
    there(archive)
    assert archive.is_usable()
    archive.file.chmod(0o620)
    assert not archive.is_usable()
    archive.file.chmod(0o600)
    folder.chmod(0o770)
    assert not archive.is_usable()
    folder.chmod(0o700)
    elsewhere = folder.parent / "elsewhere.jsa"
    archive.file.rename(elsewhere)
    archive.file.symlink_to(elsewhere)
    assert not archive.is_usable()


def test_a_folder_whose_place_others_can_take_is_not_private(tmp_path: Path) -> None:
    above = tmp_path / "above"
    assert prepared(above / "classes")
    above.chmod(0o777)
    assert not is_private(above / "classes")
    above.chmod(0o1777)  # as /tmp: only the owner renames what is in it
    assert is_private(above / "classes")
    linked = tmp_path / "linked"
    linked.symlink_to(above / "classes")
    assert not is_private(linked)


def test_a_file_or_folder_of_another_user_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = there(ClassArchive(folder / "spark-1.jsa"))
    for foreign in (archive.file, folder):

        def lstat(path: Path, foreign: Path = foreign) -> os.stat_result:
            found = os.lstat(path)
            return os.stat_result((*found[:4], 4711, *found[5:])) if path == foreign else found

        monkeypatch.setattr(Path, "lstat", lstat)
        assert not archive.is_usable()
    monkeypatch.undo()
    assert archive.is_usable()


def test_an_archive_is_made_where_it_can_be_and_is_missed(folder: Path, tmp_path: Path) -> None:
    archive = ClassArchive(folder / "spark-1.jsa")
    assert not archive.make_soon({"CI": "true"})
    archive.failure.write_text("it could not be made")
    assert not archive.make_soon({})
    archive.failure.unlink()
    there(archive)
    assert not archive.make_soon({})
    (tmp_path / "file").write_text("")
    assert not ClassArchive(tmp_path / "file" / "classes" / "spark-1.jsa").make_soon({})


def test_the_archives_that_were_used_last_are_kept(folder: Path) -> None:
    for number in range(KEPT + 1):
        old = there(ClassArchive(folder / f"spark-{number}.jsa"))
        os.utime(old.file, (number, number))
    ClassArchive(folder / "spark-0.jsa").options()  # it is used once more
    fresh = ClassArchive(folder / "spark-new.jsa")
    fresh.fresh.write_bytes(b"classes")
    fresh.fresh.chmod(0o444)  # as a JVM writes it
    fresh.publish()
    assert fresh.is_usable()
    assert not fresh.fresh.exists()
    assert {path.name for path in folder.glob("*.jsa")} == {"spark-new.jsa", "spark-0.jsa", f"spark-{KEPT}.jsa"}


def test_one_process_makes_an_archive_at_a_time(folder: Path) -> None:
    archive = ClassArchive(folder / "spark-1.jsa")
    with archive.claimed() as is_free:
        assert is_free
        assert not archive_maker.make(archive)
    with archive.claimed() as is_free:
        assert is_free


def test_why_none_could_be_made_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(settings: SessionSettings) -> None:
        raise ExternalError("Spark did not start")

    monkeypatch.setattr(archive_maker, "_run", fails)
    archive = ClassArchive(folder / "spark-1.jsa")
    assert not archive_maker.make(archive)
    assert "Spark did not start" in archive.failure.read_text()


def test_a_jvm_that_writes_none_is_a_failure_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_maker, "_run", lambda settings: None)
    archive = ClassArchive(folder / "spark-1.jsa")
    assert not archive_maker.make(archive)
    assert "could be made" in archive.failure.read_text()
    assert not archive.is_usable()


def test_the_jvm_that_writes_it_has_the_class_path_of_the_users(folder: Path, tmp_path: Path) -> None:
    users = {"spark.driver.extraClassPath": "/opt/a.jar", "spark.driver.extraJavaOptions": "-Dx=1"}
    archive = ClassArchive(folder / "spark-1.jsa", users)
    properties = session_properties(archive_maker.settings_for(archive, tmp_path))
    assert properties["spark.driver.extraClassPath"] == "/opt/a.jar"
    assert f"-XX:ArchiveClassesAtExit={archive.fresh}" in properties["spark.driver.extraJavaOptions"]
    assert properties["spark.driver.extraJavaOptions"].endswith("-Dx=1")
    assert properties["spark.eventLog.enabled"] == "false"


def test_a_jvm_that_its_user_ended_has_not_crashed() -> None:
    assert has_crashed(-signal.SIGABRT)
    assert has_crashed(-signal.SIGSEGV)
    assert not any(map(has_crashed, (None, 0, 1, -signal.SIGKILL, -signal.SIGTERM)))


@pytest.mark.parametrize(("end", "starts"), [("kill -ABRT $$", ["with", "without"]), ("exit 1", ["with"])])
def test_a_jvm_that_crashes_with_an_archive_is_started_without_it(
    folder: Path, java: Path, spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, starts: list[str]
) -> None:
    submit = spark / "bin" / "spark-submit"
    submit.parent.mkdir()
    said = tmp_path / "starts"
    submit.write_text(
        "#!/bin/sh\n"
        f"if grep -q SharedArchiveFile spark.properties; then echo with >> {said}; {end}; fi\n"
        f"echo without >> {said}; echo no more; exit 1\n"
    )
    submit.chmod(0o755)
    for variable in ("SPARK_SUBMIT_OPTS", "SPARK_CONF_DIR", "JDK_JAVA_OPTIONS"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("SPARK_HOME", str(spark))
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    archive = archive_of(folder, java, spark, {})
    assert archive is not None
    there(archive)
    with pytest.raises(ExternalError, match="Spark did not start"):
        start_session(SessionSettings(tmp_path / "session", archives=folder))
    assert said.read_text().split() == starts
    assert archive.file.exists() == ("without" not in starts)
