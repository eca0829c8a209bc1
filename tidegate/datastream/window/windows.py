"""Windows by the module that pickled state of earlier versions finds them in (``tests/compat``)."""

from tidegate.functions.windows.windows import CountWindow, GlobalWindow, TimeWindow, Window

__all__ = ["CountWindow", "GlobalWindow", "TimeWindow", "Window"]
