"""`CheckpointingMode` (PyFlink: ``pyflink.datastream.checkpointing_mode``): the model's own."""

from __future__ import annotations

from tidegate.model.graph import CheckpointingMode

__all__ = ["CheckpointingMode"]
