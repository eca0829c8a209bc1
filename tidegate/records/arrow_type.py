"""`ArrowTypeInfo`: the type information of a columnar stream."""

from __future__ import annotations

import pyarrow as pa

from tidegate.model.errors import InvalidJob
from tidegate.records.type_information import TypeInformation


class ArrowTypeInfo(TypeInformation):
    """The type of a columnar stream with this Arrow schema. Functions that take one record get each row as a ``Row``."""

    def __init__(self, schema: pa.Schema) -> None:
        if len(set(schema.names)) != len(schema.names):
            raise InvalidJob(f"column names must differ: {schema.names}")
        self.schema = schema.remove_metadata()
        self._told = tuple((field.name, str(field.type)) for field in schema)

    def __hash__(self) -> int:
        return hash(self._told)  # asked for with every batch

    def arrow_type(self) -> pa.DataType:
        return pa.struct(list(self.schema))

    def arrow_schema(self) -> pa.Schema:
        return self.schema

    @property
    def is_columnar(self) -> bool:
        return True

    def _parts(self) -> tuple[object, ...]:
        return (self._told,)

    def __repr__(self) -> str:
        return f"ArrowTypeInfo({', '.join(f'{f.name}: {f.type}' for f in self.schema)})"
