"""Options of SQL and tables (Flink: `TableConfigOptions`)."""

from __future__ import annotations

from tidegate.model.options.option import STRING, option


class TableOptions:
    """How SQL reads and computes."""

    LOCAL_TIME_ZONE = option(
        "table.local-time-zone",
        STRING,
        "UTC",
        "In which SQL sees instants as dates and times of day, such as `Europe/Berlin`; never the zone of a process.",
        deviation="there that of the client's process (`default`)",
    )
