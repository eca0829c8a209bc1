"""Further names of modules, as PyFlink's modules have them: of other modules, of Java, of Flink 1."""

from __future__ import annotations
