"""Windows, at the module path in the pickled state of earlier versions (``tests/compat``)."""

from tidegate.functions.windows.windows import CountWindow, GlobalWindow, TimeWindow, Window

__all__ = ["CountWindow", "GlobalWindow", "TimeWindow", "Window"]
