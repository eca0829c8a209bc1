"""Options of the REST port besides queries: uploaded programs, and the history of ended jobs."""

from __future__ import annotations

from tidegate.model.options.option import BOOL, DURATION, INT, LIST, MEMORY_SIZE, STRING, option, optional

PORT_MAX = 65535
"""The highest port of TCP."""


class WebOptions:
    """Options of programs that are uploaded and run by REST (Flink: ``WebOptions``)."""

    SUBMIT_ENABLE = option(
        "web.submit.enable",
        BOOL,
        "true",
        "Take job files by `/jars`. Anyone who can reach the port can then run programs, as with `tidegate run`.",
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


class HistoryOptions:
    """Options of the history of ended jobs, which is stored as files and shown by the history server (Flink: ``HistoryServerOptions``)."""

    ARCHIVE_DIR = optional(
        "jobmanager.archive.fs.dir",
        STRING,
        "Where the JobManager writes the REST responses of a job when it has ended. After a restart it reads them again. Not set: with "
        "`high-availability.type`, beside its jobs, the last 100; otherwise nowhere.",
    )
    DIRECTORIES = optional(
        "historyserver.archive.fs.dir", LIST, "Directories of such archives that the history server shows; commas."
    )
    REFRESH_INTERVAL = option(
        "historyserver.archive.fs.refresh-interval",
        DURATION,
        "10 s",
        "How often the history server looks for new archives.",
        minimum=1,
    )
    RETAINED_JOBS = option(
        "historyserver.archive.retained-jobs",
        INT,
        "-1",
        "How many archives the history server keeps in each directory, the newest; the others are deleted. -1: all.",
        minimum=1,
        except_for=(-1,),
    )
    ADDRESS = option(
        "historyserver.web.address",
        STRING,
        "localhost",
        "Interface that the history server listens on; 0.0.0.0: all.",
        deviation="there all interfaces",
    )
    SSL_ENABLED = option(
        "historyserver.web.ssl.enabled",
        BOOL,
        "false",
        "HTTPS on the port of the history server, with the keystore of `security.ssl.rest.enabled`.",
    )
    PORT = option(
        "historyserver.web.port",
        INT,
        "8082",
        "Port of the history server; 0: any free one.",
        minimum=0,
        maximum=PORT_MAX,
    )
