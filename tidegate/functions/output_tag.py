"""`OutputTag`: names a side output and the type of its records (PyFlink: ``pyflink.datastream.output_tag``)."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.common.typeinfo import RowTypeInfo, TypeInformation, Types
from tidegate.model.errors import InvalidJob

__all__ = ["OutputTag"]


class OutputTag:
    """The name and record type of a side output. A function emits to it by ``yield tag, value``. Tags with equal id and type are equal."""

    def __init__(self, tag_id: str, type_info: TypeInformation | Sequence[TypeInformation] | None = None) -> None:
        if not tag_id:
            raise InvalidJob("an OutputTag needs an id that is not empty")
        self.tag_id = tag_id
        if type_info is None:
            self.type_info = Types.PICKLED_BYTE_ARRAY()
        elif isinstance(type_info, TypeInformation):
            self.type_info = type_info
        else:
            self.type_info = RowTypeInfo(type_info)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and (self.tag_id, self.type_info) == (other.tag_id, other.type_info)

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r}, {self.type_info!r})"
