"""What both ends of a connection compare: tidegate's version and the interpreter's (pickled programs run on no other)."""

from __future__ import annotations

import sys

VERSION = "0.1.0"
PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
