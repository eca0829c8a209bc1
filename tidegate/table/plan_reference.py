"""`PlanReference`: the location of a compiled plan (PyFlink: ``pyflink.table.plan_reference``)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidegate.common.names.java_only import refusing
from tidegate.model.errors import InvalidJob

_NAMES = "BytesContentPlanReference"

__all__ = ["FilePlanReference", "JsonContentPlanReference", "PlanReference", *_NAMES.split()]


class PlanReference:
    """A reference to a compiled plan, in a file or as JSON text."""

    @staticmethod
    def from_file(path: str | Path) -> FilePlanReference:
        """Refers to the plan in a file."""
        return FilePlanReference(Path(path))

    @staticmethod
    def from_json_string(json_string: str) -> JsonContentPlanReference:
        """Refers to a plan by its JSON text."""
        return JsonContentPlanReference(json_string)

    def text(self) -> str:
        """Returns the plan as Flink's JSON. Raises ``InvalidJob`` if it cannot be read. This method is tidegate's own."""
        raise InvalidJob("make a PlanReference with from_file() or from_json_string()")


@dataclass(frozen=True)
class FilePlanReference(PlanReference):
    """A reference to a compiled plan in a file."""

    file: Path

    def get_file(self) -> Path:
        """Returns the file."""
        return self.file

    def text(self) -> str:
        try:
            return self.file.read_text()
        except OSError as error:
            raise InvalidJob(f"the plan {self.file} cannot be read: {error.strerror}") from error


@dataclass(frozen=True)
class JsonContentPlanReference(PlanReference):
    """A reference to a compiled plan as JSON text."""

    content: str

    def get_content(self) -> str:
        """Returns the plan as Flink's JSON."""
        return self.content

    def text(self) -> str:
        return self.content


__getattr__ = refusing(__name__, _NAMES, "plans are JSON: from_file() and from_json_string()")
