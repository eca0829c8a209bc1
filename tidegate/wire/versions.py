"""The versions that both ends of a connection compare: tidegate's and the interpreter's, since pickled programs run on no other."""

from __future__ import annotations

import sys

VERSION = "0.1.0"
JOB_FORMAT = 2
"""The version of a submitted job's format, its graph and its pickled programs, also in the job store. It is raised by a change after which a subtask
cannot run the programs of an earlier version (docs/adr/0168)."""
PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
