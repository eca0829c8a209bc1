"""Writes the audit log: who changed what, and who was refused, as one JSON object a line, in a file that only its owner can read."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from tidegate.aio.inspection import log_file
from tidegate.aio.rolling import Rolling, shift
from tidegate.model.configuration import Configuration
from tidegate.model.options import FileOptions, SecurityOptions
from tidegate.security.users import User

DONE = "ok"
AUDIT_SUFFIX = ".audit"
"""The suffix of audit logs. A file with it is not among the logs that REST shows."""
_MAX_TEXT = 1_000
"""The most characters of a text from a client that are logged."""

_log = logging.getLogger("tidegate.audit")


@dataclass(frozen=True, slots=True)
class Audit:
    """Writes entries of the audit log to ``file``, or to the log of the process when it is ``None``."""

    file: Path | None
    rolling: Rolling
    is_on: bool = True

    @staticmethod
    def of(configuration: Configuration) -> Audit:
        log, directory = log_file(), configuration.get(FileOptions.LOG_DIR)
        file = None
        if log is not None:
            file = log.with_suffix(AUDIT_SUFFIX)
        elif directory:
            file = Path(directory, f"tidegate-{os.getpid()}{AUDIT_SUFFIX}")
        return Audit(file, Rolling.of(configuration), configuration.get(SecurityOptions.AUDIT_ENABLED))

    def write(self, who: User | None, source: str, what: str, subject: str, result: str) -> None:
        """Writes one entry. ``source``: the caller's address; ``subject``: ids and paths. An entry that cannot be written to the file goes to the log
        of the process."""
        if not self.is_on:
            return
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        user, role = (None, None) if who is None else (who.name, who.role.value)
        fields = {"time": moment, "user": user, "role": role, "from": source, "what": what[:_MAX_TEXT]}
        if who is not None and who.via:
            fields["via"] = who.via
        line = json.dumps({**fields, "of": subject[:_MAX_TEXT], "result": result[:_MAX_TEXT]}, ensure_ascii=False)
        if self.file is None:
            _log.info("%s", line)
            return
        try:
            self._append(self.file, f"{line}\n".encode())
        except OSError as error:
            _log.error(
                "cannot write the audit log %s (%s), so this line of it stands here: %s",
                self.file,
                error.strerror or error,
                line,
            )

    def _append(self, file: Path, line: bytes) -> None:
        descriptor = _open(file)
        try:
            if os.fstat(descriptor).st_size > self.rolling.max_bytes:
                shift(file, self.rolling.keep)
                os.close(descriptor)
                descriptor = _open(file)
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def without_secrets(place: str) -> str:
    """Returns a path or URI without user, password and query, which may hold credentials."""
    try:
        found = urlsplit(place)
    except ValueError:
        return ""
    return place if not found.scheme else f"{found.scheme}://{found.netloc.rpartition('@')[2]}{found.path}"


def _open(file: Path) -> int:
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
