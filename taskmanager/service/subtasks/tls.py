"""The TLS key and certificates that a TaskManager gives to its subtasks, as PEM.

For subtasks on the TaskManager's machine they are files of its working directory, which no other user can enter. Subtasks on other machines get them with
the Spark task, through Spark's own encrypted connections. A subtask has neither the passwords of keystores nor a library that reads them.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.model.configuration import Configuration
from tidegate.model.errors import ExternalError
from tidegate.model.options import SecurityOptions, SparkOptions
from tidegate.security.sockets import IDENTITY, TRUSTED
from tidegate.taskmanager.spark.memory.limits import WorkerSettings

if TYPE_CHECKING:
    from tidegate.security.reloading import Reloaded
    from tidegate.security.tls import Material


class SubtaskTls:
    """Adds the TaskManager's current TLS key and certificates to the settings of subtasks that start."""

    def __init__(self, tls: Reloaded[Material], directory: Path, pins: str, *, is_here: bool) -> None:
        """Takes the TaskManager's TLS material. ``is_here``: subtasks run on this machine and read files below ``directory``. ``pins``: pinned fingerprints,
        separated by commas.
        """
        self.material, self._directory, self.pins, self._is_here = tls, directory, pins, is_here
        self._written: Material | None = None

    @staticmethod
    def of(configuration: Configuration, working: Path, tls: Reloaded[Material] | None) -> SubtaskTls | None:
        """Returns the instance for this configuration; ``None`` if the connections of subtasks use no TLS. ``tls``: the material of gRPC."""
        option = SecurityOptions
        if tls is None or not configuration.get(option.DATA_ENABLED):
            return None
        is_here = configuration.get(SparkOptions.MASTER).startswith("local")
        return SubtaskTls(tls, working / "tls", configuration.get(option.INTERNAL_FINGERPRINT) or "", is_here=is_here)

    def added_to(self, settings: WorkerSettings) -> WorkerSettings:
        """Returns the settings of a subtask that starts now, with its key and certificates. Raises ``ExternalError`` when the files cannot be written."""
        material = self.material.get()
        if self._is_here:
            return replace(settings, tls_directory=str(self._files_of(material)), tls_pins=self.pins)
        from tidegate.security.keystores import pem_of

        assert material.credentials is not None
        own = material.credentials.key_pem() + material.credentials.chain_pem()
        trusted = pem_of(material.trusted)
        return replace(settings, tls_identity=own.decode(), tls_trusted=trusted.decode(), tls_pins=self.pins)

    def _files_of(self, material: Material) -> Path:
        """Returns the directory with the PEM files; writes them first if the material was renewed. Raises ``ExternalError`` if that fails."""
        if material is not self._written:
            from tidegate.security.keystores import pem_of

            assert material.credentials is not None
            try:
                self._directory.mkdir(mode=0o700, exist_ok=True)
                _replace(self._directory / IDENTITY, material.credentials.key_pem() + material.credentials.chain_pem())
                _replace(self._directory / TRUSTED, pem_of(material.trusted))
            except OSError as error:
                raise ExternalError(f"cannot write {error.filename}: {error.strerror}") from None
            self._written = material
        return self._directory


def _replace(file: Path, content: bytes) -> None:
    """Writes a file atomically: a subtask that is starting reads the old one or the new one."""
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(content)
    new.replace(file)
