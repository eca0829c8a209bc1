"""Windows of a number of records of a key (PyFlink: ``CountTumblingWindowAssigner``, ``CountSlidingWindowAssigner``).

The assigner numbers the records of each key; how far it came is state of the key. A window that is full fires and is
emptied; one that never fills never fires, as in Flink.
"""

from __future__ import annotations

from tidegate.common.names.type_variables import T
from tidegate.common.serializer import TypeSerializer
from tidegate.common.typeinfo import Types
from tidegate.functions.state import ValueStateDescriptor
from tidegate.functions.windows.assigners import AssignerScope, WindowAssigner
from tidegate.functions.windows.serializers import CountWindowSerializer
from tidegate.functions.windows.triggers import CountTrigger, PurgingTrigger, Trigger
from tidegate.functions.windows.windows import CountWindow
from tidegate.model.errors import InvalidJob
from tidegate.model.values import AssignedWindow, Record
from tidegate.model.whole_numbers import whole_number


class _CountWindows(WindowAssigner[T, CountWindow]):
    """Assigns windows of ``size`` records that start every ``slide`` records."""

    def __init__(self, size: int, slide: int, state_name: str) -> None:
        named = type(self).__name__
        size, slide = whole_number(size, f"{named}: the size"), whole_number(slide, f"{named}: the slide")
        if size <= 0 or slide <= 0:
            raise InvalidJob(f"{type(self).__name__}: size and slide must be positive, not {size} and {slide}")
        self.size = size
        self.slide = slide
        self._counted = ValueStateDescriptor(state_name, Types.LONG())

    def assign_windows(self, element: Record, timestamp: int, context: AssignerScope) -> list[CountWindow]:
        """Returns the windows of a record, the latest first."""
        counted = context.get_runtime_context().get_state(self._counted)
        place = counted.value() or 0
        counted.update(place + 1)
        last = place // self.slide
        first = max(0, (place - self.size) // self.slide + 1)
        return [CountWindow(number) for number in range(last, first - 1, -1)]

    def get_default_trigger(self, env: object = None) -> Trigger[Record, AssignedWindow]:
        return PurgingTrigger(CountTrigger(self.size))

    def get_window_serializer(self) -> TypeSerializer[AssignedWindow]:
        return CountWindowSerializer()

    def is_event_time(self) -> bool:
        return False


class CountTumblingWindowAssigner(_CountWindows[T]):
    """Windows of ``window_size`` records of a key, one after the other (PyFlink: ``CountTumblingWindowAssigner``)."""

    def __init__(self, window_size: int) -> None:
        super().__init__(window_size, window_size, "tumble-count-assigner")

    @staticmethod
    def of(window_size: int) -> CountTumblingWindowAssigner[Record]:
        """Creates windows of ``window_size`` records."""
        return CountTumblingWindowAssigner(window_size)

    def __repr__(self) -> str:
        return f"CountTumblingWindowAssigner({self.size})"


class CountSlidingWindowAssigner(_CountWindows[T]):
    """Windows that begin every ``window_slide`` records of a key; each fires when it holds ``window_size`` (PyFlink:
    ``CountSlidingWindowAssigner``)."""

    def __init__(self, window_size: int, window_slide: int) -> None:
        super().__init__(window_size, window_slide, "slide-count-assigner")

    @staticmethod
    def of(window_size: int, window_slide: int) -> CountSlidingWindowAssigner[Record]:
        """Creates windows of ``window_size`` records, one every ``window_slide`` records."""
        return CountSlidingWindowAssigner(window_size, window_slide)

    def __repr__(self) -> str:
        return f"CountSlidingWindowAssigner({self.size}, {self.slide})"
