"""Archives the REST responses of jobs that have ended as files ``<directory>/<job id>``, in the format of Flink's archives.

    {"archive": [{"path": "/jobs/<id>/checkpoints", "json": "<the answer, as a text>"}, ...]}

(``FsJsonArchivist.java``: Flink's own history server reads them too.)
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from tidegate.model.errors import CorruptData
from tidegate.model.ids import JobId, parse_job_id
from tidegate.store.locations import normalized, open_files, storage_error


class JobArchives:
    """The archives of jobs in a directory, local or of an object store. Every method blocks, and raises ``StorageError`` or ``CorruptData``."""

    def __init__(self, directory: str) -> None:
        self.directory = normalized(directory)

    def write(self, job_id: JobId, answers: Mapping[str, str]) -> None:
        """Writes the archive of a job, durable when this method returns. ``answers``: JSON by path."""
        content = {"archive": [{"path": path, "json": text} for path, text in answers.items()]}
        try:
            files, path = open_files(self.directory)
            files.make_directory(path)
            files.write(f"{path}/{job_id}", [json.dumps(content, separators=(",", ":")).encode()])
        except OSError as error:
            raise storage_error("write the archive", f"{self.directory}/{job_id}", error) from error

    def job_ids(self) -> list[JobId]:
        """Returns the ids of the jobs with an archive."""
        try:
            files, path = open_files(self.directory)
            names = files.sizes(path)
        except OSError as error:
            raise storage_error("list", self.directory, error) from error
        return sorted(job_id for name in names if (job_id := _job_id(name)) is not None)

    def read(self, job_id: JobId) -> dict[str, str]:
        """Reads the archive of a job: JSON by path."""
        place = f"{self.directory}/{job_id}"
        try:
            files, path = open_files(self.directory)
            content = files.read(f"{path}/{job_id}")
        except OSError as error:
            raise storage_error("read the archive", place, error) from error
        try:
            return {str(entry["path"]): str(entry["json"]) for entry in json.loads(content)["archive"]}
        except (ValueError, KeyError, TypeError, RecursionError):
            raise CorruptData(f"{place} is not an archive of a job; remove it") from None

    def delete(self, job_id: JobId) -> None:
        try:
            files, path = open_files(self.directory)
            files.delete(f"{path}/{job_id}")
        except OSError as error:
            raise storage_error("delete the archive", f"{self.directory}/{job_id}", error) from error


def _job_id(name: str) -> JobId | None:
    try:
        return parse_job_id(name)
    except ValueError:
        return None
