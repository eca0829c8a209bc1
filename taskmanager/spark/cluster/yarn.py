"""What Spark needs to be given for an application on YARN that lives for months."""

from __future__ import annotations

MASTER = "yarn"
ARCHIVES = "spark.yarn.dist.archives"
"""What `spark-submit` makes of ``spark.archives`` for YARN; it may be set itself."""
PATH_SEPARATOR = "<CPS>"
"""In the paths of environment variables, which YARN writes as the container's system does."""

DEFAULTS = {
    # Without an interval every executor that was ever lost counts, and the application ends with some of them.
    "spark.executor.failuresValidityInterval": "1h",
    "spark.yarn.am.attemptFailuresValidityInterval": "1h",
    # Else a driver whose application was ended stays, with a context that can do nothing.
    "spark.yarn.am.clientModeExitOnError": "true",
}
