"""The version of the package (PyFlink: ``pyflink.version``)."""

from __future__ import annotations

from tidegate.wire.versions import VERSION

__version__ = VERSION
