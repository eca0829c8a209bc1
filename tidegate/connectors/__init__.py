"""Sources and sinks, one file or folder per system.

Each holds its builder, its reader or writer, and its serialisable state. A connector knows its external system, and neither
the threads of the runtime nor the control plane. A program imports one by ``from tidegate.connectors.X import ...``
(``tidegate.common.names.places`` has the list).
"""

from __future__ import annotations

from tidegate.common.names.finding import finding
from tidegate.common.names.missing_modules import say_which_is_meant

__getattr__ = finding(__name__)
say_which_is_meant()
