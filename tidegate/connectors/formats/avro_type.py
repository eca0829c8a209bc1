"""An Avro schema, as JSON says it."""

from __future__ import annotations

from typing import TypeAlias

from tidegate.model.values import Json

AvroType: TypeAlias = Json
"""A type's name, a list of schemas for a union, or an object with ``type``: ``fastavro`` gives it when it has checked it."""
