"""What both ends of a connection compare: tidegate's version and the interpreter's (pickled programs run on no other)."""

from __future__ import annotations

import sys

VERSION = "0.1.0"
JOB_FORMAT = 2
"""The form in which a client hands over a job, its graph and its pickled programs; the job store keeps it. It is raised by a change after which
a subtask cannot run what an earlier version made (docs/adr/0168)."""
PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
