"""A program that makes the archive of the classes of Spark's JVM: it runs a session as a TaskManager does, and the JVM writes what it loaded as it ends.

    python -P -m tidegate.taskmanager.spark.archive_maker < {"file": ..., "properties": {...}}

It runs beside programs of the user, after the TaskManager that started it has ended, so it has the lowest priority, and ends after a limit.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tidegate.aio.ownership import make_owned
from tidegate.aio.working_directories import PREFIX
from tidegate.model.errors import TidegateError
from tidegate.taskmanager.spark.class_archive import ClassArchive, prepared
from tidegate.taskmanager.spark.cluster.session_settings import JVM_OPTIONS, SessionSettings
from tidegate.taskmanager.spark.session import start_session

LIMIT_S = 600
"""Seconds after which the program is ended, with its JVM. Chosen, not measured: on a busy machine the lowest priority gets little of a processor."""
_WRITING_S = 300.0
"""Seconds that the JVM gets to write the archive as it ends. It takes about 5 s of a processor."""
_OF_ITS_OWN = {"spark.eventLog.enabled": "false", "spark.ui.enabled": "false", "spark.plugins": ""}
"""Properties that keep this session out of what the user sees of Spark, whatever spark-defaults.conf says."""


def make(archive: ClassArchive) -> bool:
    """Makes the archive unless it is there, or another process makes one; returns whether it did. What kept it from that is written to ``archive.failure``."""
    if not prepared(archive.folder):
        return False
    with archive.claimed() as is_free:
        if not is_free or archive.is_usable():
            return False
        for left in archive.folder.glob("*.part"):
            left.unlink(missing_ok=True)
        directory = make_owned(f"{PREFIX}classes-", Path(tempfile.gettempdir()))
        try:
            _run(settings_for(archive, directory.directory))
            archive.publish()
        except (OSError, TidegateError) as error:
            archive.failure.write_text(f"no archive of Spark's classes could be made: {error}\n", encoding="utf-8")
            return False
        finally:
            directory.remove()
    return True


def settings_for(archive: ClassArchive, directory: Path) -> SessionSettings:
    """Returns the settings of the session whose JVM writes the archive."""
    own = archive.properties
    options = f"{archive.writing_options()} {own.get(JVM_OPTIONS, '')}".strip()
    return SessionSettings(directory, "local[2]", {**own, **_OF_ITS_OWN, JVM_OPTIONS: options})


def _run(settings: SessionSettings) -> None:
    """Has the JVM load what a TaskManager's loads: for workers, and for their loss."""
    session = start_session(settings)
    session.warm_up(2)
    session.rehearse()
    session.close(_WRITING_S)


def main() -> None:
    request: Mapping[str, object] = json.load(sys.stdin)
    properties = request["properties"]
    assert isinstance(properties, dict)
    os.nice(19)
    signal.alarm(LIMIT_S)
    sys.exit(0 if make(ClassArchive(Path(str(request["file"])), properties)) else 1)


if __name__ == "__main__":
    main()
