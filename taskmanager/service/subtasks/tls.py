"""What subtasks prove themselves with: the key and the certificates of their TaskManager as PEM, in its working directory, which no other user can enter.

A subtask has neither the passwords of keystores nor a library that reads them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError, ExternalError
from tidegate.model.options import SecurityOptions, SparkOptions
from tidegate.security.sockets import IDENTITY, TRUSTED

if TYPE_CHECKING:
    from tidegate.security.reloading import Reloaded
    from tidegate.security.tls import Material


class SubtaskTls:
    """``current`` before each start of a subtask."""

    def __init__(self, tls: Reloaded[Material], directory: Path, pins: str) -> None:
        """``directory``: is made. ``pins``: fingerprints between commas."""
        self._tls, self._directory, self.pins = tls, directory, pins
        self._written: Material | None = None

    @staticmethod
    def of(configuration: Configuration, working: Path, tls: Reloaded[Material] | None) -> SubtaskTls | None:
        """``tls``: that of gRPC. Returns ``None`` where connections of subtasks have none. Raises ``ConfigurationError``."""
        option = SecurityOptions
        if tls is None or not configuration.get(option.DATA_ENABLED):
            return None
        master = configuration.get(SparkOptions.MASTER)
        if not master.startswith("local"):
            raise ConfigurationError(
                f"bad configuration: {option.INTERNAL_ENABLED.key} is true, and {SparkOptions.MASTER.key} is {master}: control connections of "
                f"subtasks on other machines have no TLS yet; with {option.DATA_ENABLED.key} false, theirs and those for data stay plain"
            )
        return SubtaskTls(tls, working / "tls", configuration.get(option.INTERNAL_FINGERPRINT) or "")

    def current(self) -> Path:
        """Returns the directory of ``TlsFiles``, written again after a renewal. Raises ``ExternalError``."""
        material = self._tls.get()
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
    """At once: a subtask that is starting reads the old one or the new one."""
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(content)
    new.replace(file)
