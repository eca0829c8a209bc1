"""Options of queryable state, `queryable-state.*`."""

from __future__ import annotations

from tidegate.model.options.option import BOOL, INT, PORTS, option


class QueryableStateOptions:
    """Options of a TaskManager's KvState server. Flink's client proxies (`queryable-state.proxy.*`) are not needed here: a client asks the JobManager
    where a key is, and then that TaskManager's server."""

    ENABLE = option(
        "queryable-state.enable",
        BOOL,
        "false",
        "TaskManagers answer clients that ask for the state of running jobs (`StateDescriptor.set_queryable`).",
    )
    SERVER_PORTS = option(
        "queryable-state.server.ports",
        PORTS,
        "9067",
        "Port or range of ports, such as `9067-9077`, on which a TaskManager answers them: one for each TaskManager of a machine. 0: any free one.",
        "query.server.ports",
    )
    MAX_RATE = option(
        "tidegate.queryable-state.max-rate",
        INT,
        "10000",
        "Keys that a TaskManager looks up a second, for all clients together. More are refused, and clients ask again.",
        minimum=1,
    )
