"""Processes read no option of a job for themselves: an embedded cluster is started without those, since it serves many jobs."""

from __future__ import annotations

import re

from tests.architecture.source import ROOT
from tidegate.model import options
from tidegate.model.options import is_of_a_job

READ_FOR_EACH_JOB = (
    "jobmanager/service/storage",
    "jobmanager/service/clients",
    "jobmanager/service/reporting/startup_log.py",
)
"""With the job's configuration in their hands; the last tells what is not set, and nothing depends on it."""


def test_no_process_depends_on_an_option_of_a_job() -> None:
    found = []
    for folder in ("jobmanager/service", "taskmanager/service"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            if place.startswith(READ_FOR_EACH_JOB):
                continue
            for group, name in re.findall(r"\b([A-Z]\w*Options)\.([A-Z_]+)\b", path.read_text()):
                key = getattr(getattr(options, group), name).key
                if is_of_a_job(key):
                    found.append(f"{place}: {key}")
    assert found == []
