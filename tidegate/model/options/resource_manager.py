"""Options of TaskManagers that the JobManager starts by itself (Flink: ``ResourceManagerOptions``)."""

from __future__ import annotations

from enum import Enum

from tidegate.model.options.option import DURATION, FLOAT, INT, STRING, choice, option, optional


class ResourceManagerDriver(Enum):
    """What starts TaskManagers."""

    NONE = "none"
    PROCESS = "process"
    COMMAND = "command"
    SPARK = "spark"


class ResourceManagerOptions:
    """Options of TaskManagers that are started when jobs need slots. The keys are Flink's; those with ``tidegate.`` are tidegate's own."""

    DRIVER = option(
        "tidegate.resourcemanager.driver",
        choice(ResourceManagerDriver),
        "none",
        "What starts TaskManagers when jobs lack slots. none: nothing. process: the JobManager, on its own machine; the default of "
        "`tidegate cluster start`. command: the client of a scheduler, by the three commands below. spark: executors of the Spark cluster "
        "at `spark.master`, each of which is a TaskManager.",
    )
    MIN_SLOTS = option(
        "slotmanager.number-of-slots.min",
        INT,
        "0",
        "Slots that are kept, also while no job needs them.",
        minimum=0,
    )
    MAX_SLOTS = option(
        "slotmanager.number-of-slots.max",
        INT,
        "2147483647",
        "No TaskManager is started by which there would be more slots.",
        minimum=1,
    )
    REDUNDANT = option(
        "slotmanager.redundant-taskmanager-num",
        INT,
        "0",
        "TaskManagers whose slots are free while a job runs, so that it restarts on them when one is lost.",
        minimum=0,
    )
    CHECK_DELAY = option(
        "slotmanager.requirement-check.delay",
        DURATION,
        "50 ms",
        "What is needed is compared with what is there so long after it has changed; several changes are one then.",
        minimum=0,
    )
    IDLE_TIMEOUT = option(
        "resourcemanager.taskmanager-timeout",
        DURATION,
        "30 s",
        "A started TaskManager is stopped when it was idle for so long.",
        "slotmanager.taskmanager-timeout",
        minimum=1,
    )
    MAX_FAILURE_RATE = option(
        "resourcemanager.start-worker.max-failure-rate",
        FLOAT,
        "10",
        "Starts that may fail in a minute. With more, jobs that wait for slots fail, and the next start is made after the retry interval.",
        minimum=0,
    )
    RETRY_INTERVAL = option(
        "resourcemanager.start-worker.retry-interval",
        DURATION,
        "3 s",
        "How long nothing is started after too many starts have failed.",
        minimum=1,
    )
    REGISTRATION_TIMEOUT = option(
        "resourcemanager.taskmanager-registration.timeout",
        DURATION,
        "5 min",
        "A started TaskManager that has not registered by then is stopped, and its start has failed.",
        "taskmanager.registration.timeout",
        minimum=1,
    )
    RECOVERY_TIMEOUT = option(
        "resourcemanager.previous-worker.recovery.timeout",
        DURATION,
        "60 s",
        "A JobManager that has come back waits so long for TaskManagers that the one before it had started, before it stops them and starts others.",
        deviation="Flink's is 0 s: it starts others at once. Here the earlier ones are adopted with what runs in them; "
        "one that was just started on a busy machine takes that long.",
        minimum=1,
    )
    EXPECTED_SLOTS = option(
        "tidegate.resourcemanager.expected-slots",
        INT,
        "0",
        "Slots of TaskManagers that are started by hand together with the JobManager. No others are started in their stead while they may still "
        "register, for the time of `resourcemanager.previous-worker.recovery.timeout`. `tidegate cluster start` sets it.",
        minimum=0,
    )
    MAX_TASK_MANAGERS = optional(
        "tidegate.resourcemanager.process.max-taskmanagers",
        INT,
        "TaskManagers that `process` runs at once; not set: twice the cores of the machine, and at least 4.",
        minimum=1,
    )
    START_COMMAND = optional(
        "tidegate.resourcemanager.command.start",
        STRING,
        "Command of `command` that starts a TaskManager, such as `tsp -L {id} {command}`. {id}: its name; {slots}: its slots; {command}: the "
        "command line that is to run, several words; {script}: the same as one file. The last word that it prints is the scheduler's own name of it.",
    )
    STOP_COMMAND = optional(
        "tidegate.resourcemanager.command.stop",
        STRING,
        "Command that ends one. {id}: its name; {job}: the scheduler's name of it, as start or list have told.",
    )
    LIST_COMMAND = optional(
        "tidegate.resourcemanager.command.list",
        STRING,
        "Command that prints those that run or wait to run, a line each: the scheduler's name as its first word, and anywhere behind it {id}.",
    )
    LIST_INTERVAL = option(
        "tidegate.resourcemanager.command.list-interval",
        DURATION,
        "2 s",
        "How often the scheduler is asked.",
        minimum=100,
    )
