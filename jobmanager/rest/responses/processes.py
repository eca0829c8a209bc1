"""Log files and threads of the JobManager and of TaskManagers as Flink's JSON."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.aio.inspection import LogFile, ThreadInfo
from tidegate.model.values import JsonObject


def log_list(files: Sequence[LogFile]) -> JsonObject:
    return {"logs": [{"name": file.name, "size": file.size_bytes, "mtime": file.modified_ms} for file in files]}


def thread_list(threads: Sequence[ThreadInfo]) -> JsonObject:
    return {"threadInfos": [{"threadName": t.name, "stringifiedThreadInfo": t.stack} for t in threads]}
