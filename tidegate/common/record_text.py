"""A record as Flink prints it: ``(a,1)`` for a tuple, ``+I[a, 1]`` for a row, ``null``, ``true``, ``[1, 2]``, ``{k=v}``.

Objects of unknown type are printed as Python does, as in PyFlink.
"""

from __future__ import annotations

from typing import Any

from tidegate.common.row import Row
from tidegate.common.typeinfo import PickledBytesTypeInfo, TypeInformation


def record_text(value: Any, type_info: TypeInformation) -> str:
    """A record of a stream of this type."""
    return str(value) if isinstance(type_info, PickledBytesTypeInfo) else text_of(value)


def text_of(value: Any) -> str:
    match value:
        case str():
            return value
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Row():
            return f"{value.get_row_kind()}[{', '.join(map(text_of, value))}]"
        case tuple():
            return f"({','.join(map(text_of, value))})"
        case list():
            return f"[{', '.join(map(text_of, value))}]"
        case dict():
            return "{" + ", ".join(f"{text_of(k)}={text_of(v)}" for k, v in value.items()) + "}"
        case _:
            return str(value)


class RecordText:
    """``record -> text`` as a function of a stream."""

    def __init__(self, type_info: TypeInformation) -> None:
        self.type_info = type_info

    def __call__(self, value: Any) -> str:
        return record_text(value, self.type_info)
