"""What an error of Spark, or of a function that runs in its driver, says first, and what to do where we know it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.model.errors import InvalidJob

_SHOWN = 1000
"""Characters of an error's first line: some of Spark's are plans."""
_PACKAGE = (
    "what Spark does not bring itself needs its package, at the client and at the TaskManagers: name it with "
    "-D spark.jars.packages=group:artifact:version"
)
_CATALOG = "Spark knows no catalog of that name: configure it with -D spark.sql.catalog.NAME=..., and its package with -D spark.jars.packages"
_ADVICE = {
    "DATA_SOURCE_NOT_FOUND": _PACKAGE,
    "Failed to find data source": _PACKAGE,
    "ClassNotFoundException": _PACKAGE,
    "NoClassDefFoundError": _PACKAGE,
    "plugin class not found": _PACKAGE,
    "CATALOG_NOT_FOUND": _CATALOG,
    "REQUIRES_SINGLE_PART_NAMESPACE": _CATALOG,
}
"""By what stands in the error."""
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\] .*")
"""Spark's own name for what is wrong, with its sentence, which names the file or the table; its cause in the JVM does not."""
_IN_PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")


@contextmanager
def naming_the_source(name: str) -> Iterator[None]:
    """Where a query is refused: a program may have several. Raises ``InvalidJob``."""
    try:
        yield
    except InvalidJob as error:
        raise InvalidJob(f"source {name!r}: {error.message}", details=error.details) from error


def explained(error: BaseException) -> str:
    """Returns the first words of an error, and what to do about it where a package or a catalog is not there."""
    text = str(error)
    advice = next((advice for mark, advice in _ADVICE.items() if mark in text), "")
    return f"{first_words(error)} ({advice})" if advice else first_words(error)


def first_words(error: BaseException) -> str:
    """Returns what an error says first; of one in the JVM what a function in Python raised, Spark's own sentence, or its cause."""
    text = str(error)
    raised = _IN_PYTHON.findall(text)
    if raised:
        return str(raised[-1])[:_SHOWN]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    thrown = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    sentences = [found[0] for line in lines if (found := _CONDITION.search(line))]
    if sentences and (causes or thrown):
        return sentences[-1][:_SHOWN]
    if causes:
        return causes[-1][:_SHOWN]
    if thrown:
        return thrown[0][:_SHOWN]
    return f"{type(error).__name__}: {lines[0]}"[:_SHOWN] if lines else type(error).__name__
