"""`CachedDataStream`: what ``DataStream.cache`` gives (PyFlink: ``pyflink.datastream.data_stream``)."""

from __future__ import annotations

from typing import NoReturn

from tidegate.datastream.data_stream import DataStream
from tidegate.model.errors import InvalidJob

__all__ = ["CachedDataStream"]


class CachedDataStream(DataStream):
    """The records of the stream that was cached, in this job and in later ones of the same program. Flink promises no more: it
    computes a lost cache again. Here every job computes them, so what takes long is better written with a FileSink."""

    def invalidate(self) -> None:
        """Nothing is kept, so nothing is released."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        """Raises ``InvalidJob``: settings belong to the operator before ``cache()``."""
        raise InvalidJob("a cached stream has no operator of its own: change or read its settings before cache()")

    name = uid = set_uid_hash = set_parallelism = set_max_parallelism = force_non_parallel = get_name = _refuse
    set_buffer_timeout = start_new_chain = disable_chaining = slot_sharing_group = set_description = _refuse
