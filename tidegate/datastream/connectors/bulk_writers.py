"""Writer factories of ``FileSink.for_bulk_format``: PyFlink's ``BulkWriterFactory`` over our encoders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.common.configuration import Configuration
from tidegate.common.serialization import BulkWriterFactory, RowDataBulkWriterFactory
from tidegate.connectors.files.encoders import EncoderFactory
from tidegate.model.errors import InvalidJob
from tidegate.records.data_types import DataType


@dataclass(frozen=True)
class EncodedBulkWriterFactory(BulkWriterFactory):
    """Makes writers by our encoders. ``encoder_of``: makes the encoder of files with a given suffix."""

    encoder_of: Callable[[str], EncoderFactory]


@dataclass(frozen=True)
class RowWriterFactory(EncodedBulkWriterFactory, RowDataBulkWriterFactory):
    """Makes writers of rows of ``row_type``."""

    row_type: DataType


def only_setting(settings: Configuration | None, key: str, default: str) -> str:
    """Returns, in capitals, the only supported setting of a format. Raises ``InvalidJob`` for any other."""
    found = {} if settings is None else settings.to_dict()
    strange = sorted(found.keys() - {key})
    if strange:
        raise InvalidJob(
            f"unknown settings of this format: {strange}{f'; it takes {key}' if key else ', which takes none'}"
        )
    return found.get(key, default).upper()
