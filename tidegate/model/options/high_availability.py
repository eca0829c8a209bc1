"""Where a JobManager keeps its jobs, so that the next one goes on with them."""

from __future__ import annotations

from enum import Enum

from tidegate.model.options.option import STRING, choice, option, optional


class HighAvailabilityType(Enum):
    """``filesystem``: one directory of one machine. The types that Flink has and tidegate has not are refused by name."""

    NONE = "NONE"
    FILESYSTEM = "filesystem"


class HighAvailabilityOptions:
    """Flink's keys; ``filesystem`` is a type of ours."""

    TYPE = option(
        "high-availability.type",
        choice(HighAvailabilityType),
        "NONE",
        "NONE: jobs end with their JobManager. filesystem: jobs are kept in a directory of this machine, and the next JobManager that "
        "is started with it goes on with them; the default of `tidegate cluster start`.",
        "high-availability",
    )
    STORAGE_DIR = optional(
        "high-availability.storageDir",
        STRING,
        "Directory in which the JobManager keeps its jobs and their programs; on a local disk, below `<cluster-id>`.",
    )
    CLUSTER_ID = option(
        "high-availability.cluster-id",
        STRING,
        "/default",
        "Name of the cluster: JobManagers of one name and directory take the same jobs over, one after the other.",
    )
