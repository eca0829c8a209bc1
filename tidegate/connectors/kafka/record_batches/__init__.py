"""Record batches of Kafka's message format v2: decoding to columns and encoding of columns, without I/O.

    batch:  base offset · length · leader epoch · magic · CRC-32C · attributes · last offset delta · base and max timestamp
            · producer id, epoch and base sequence · count · records (compressed together, or not)
    record: length · attributes · timestamp delta · offset delta · key length · key · value length · value · headers

A batch's header is of fixed width, a record's numbers are zigzag varints. What is wrong with bytes that were given is
``CorruptData``. The format is that of Kafka's documentation, "Record Batch"; what a committed reader passes over follows
the Java client's ``CompletedFetch``.
"""

from __future__ import annotations

from tidegate.connectors.kafka.record_batches.layout import Aborted, Columns, Producer
from tidegate.connectors.kafka.record_batches.reading import decode
from tidegate.connectors.kafka.record_batches.writing import cut, encode

__all__ = ["Aborted", "Columns", "Producer", "cut", "decode", "encode"]
