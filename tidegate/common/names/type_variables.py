"""The type variables of PyFlink's functions and windows, which programs import for their annotations."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["IN", "IN1", "IN2", "KEY", "OUT", "W2", "K", "T", "V", "W"]

T = TypeVar("T")
W = TypeVar("W")
W2 = TypeVar("W2")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
IN1 = TypeVar("IN1")
IN2 = TypeVar("IN2")
KEY = TypeVar("KEY")
OUT = TypeVar("OUT")
