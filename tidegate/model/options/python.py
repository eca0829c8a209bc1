"""Options of a Python program's dependencies (Flink: `PythonOptions`)."""

from __future__ import annotations

from tidegate.model.options.option import STRING, optional


class PythonOptions:
    """Options of the files, requirements and archives that are shipped with a job."""

    FILES = optional(
        "python.files",
        STRING,
        "Modules (.py), packages (directories) and archives (.zip, .whl, .egg) that functions import: `a.py,b.zip`.",
    )
    REQUIREMENTS = optional(
        "python.requirements",
        STRING,
        "A requirements file that is installed for the job where it runs, and after `#` a directory with its packages.",
    )
    ARCHIVES = optional(
        "python.archives",
        STRING,
        "Archives that are unpacked into the working directory of the job's subtasks: `data.zip#data,venv.tar.gz`.",
    )
    EXECUTABLE = optional(
        "python.executable",
        STRING,
        "The interpreter that the job needs; it must be the one that the TaskManagers run, or the job fails.",
    )
