"""Names that a module has beside its own, as PyFlink's modules have them: of other modules, of Java, of Flink 1."""

from __future__ import annotations
