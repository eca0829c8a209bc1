"""Modules that programs import from ``pyflink.util``."""

from __future__ import annotations
