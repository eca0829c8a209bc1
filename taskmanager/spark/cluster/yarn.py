"""Defaults of Spark properties for an application on YARN that runs for months."""

from __future__ import annotations

MASTER = "yarn"
ARCHIVES = "spark.yarn.dist.archives"
"""Property into which `spark-submit` turns ``spark.archives`` for YARN; it may be set directly."""
PATH_SEPARATOR = "<CPS>"
"""Separator in path variables of the environment; YARN replaces it by that of the container's operating system."""

DEFAULTS = {
    # Without an interval every executor that was ever lost counts, and the application ends with some of them.
    "spark.executor.failuresValidityInterval": "1h",
    "spark.yarn.am.attemptFailuresValidityInterval": "1h",
    # Else a driver whose application was ended stays, with a context that can do nothing.
    "spark.yarn.am.clientModeExitOnError": "true",
}
