"""What goes by the REST port beside questions: programs that are uploaded."""

from __future__ import annotations

from tidegate.model.options.option import BOOL, DURATION, MEMORY_SIZE, STRING, option, optional


class WebOptions:
    """Programs that are uploaded and run by REST (Flink: ``WebOptions``)."""

    SUBMIT_ENABLE = option(
        "web.submit.enable",
        BOOL,
        "true",
        "Take job files by `/jars`. Whoever reaches the port can run programs then, as by `tidegate run`.",
        "jobmanager.web.submit.enable",
    )
    UPLOAD_DIR = optional(
        "web.upload.dir",
        STRING,
        "Where uploaded job files are kept; not set: in a temporary directory that goes with the process.",
        "jobmanager.web.upload.dir",
    )
    MAX_UPLOAD = option(
        "rest.server.max-content-length",
        MEMORY_SIZE,
        "100 mb",
        "Largest upload, and four times as much of what a zip file unpacks to.",
        minimum=1,
        deviation="there in bytes without a unit",
    )
    SUBMIT_TIMEOUT = option(
        "tidegate.web.submit-timeout",
        DURATION,
        "1 min",
        "Longest run of an uploaded program until it has submitted its job; then its process is ended.",
        minimum=1,
    )
