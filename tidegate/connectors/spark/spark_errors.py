"""Messages for errors of Spark, or of a function that runs in its driver, with advice where it is known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.model.errors import InvalidJob

_SHOWN = 1000
"""How many characters of an error's first line are shown: some of Spark's are plans."""
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
"""Advice by a part of the error's text."""
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]+\] .*")
"""A pattern of Spark's error condition with its sentence, which names the file or the table, unlike its cause in the JVM."""
_IN_PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")


@contextmanager
def naming_the_source(name: str) -> Iterator[None]:
    """Adds the source's name to an ``InvalidJob`` raised in the block."""
    try:
        yield
    except InvalidJob as error:
        raise InvalidJob(f"source {name!r}: {error.message}", details=error.details) from error


def explained(error: BaseException) -> str:
    """Returns the first line of an error, with advice where a package or a catalog is missing."""
    text = str(error)
    advice = next((advice for mark, advice in _ADVICE.items() if mark in text), "")
    return f"{first_words(error)} ({advice})" if advice else first_words(error)


def first_words(error: BaseException) -> str:
    """Returns the first line of an error; of one from the JVM what a Python function raised, Spark's own sentence, or its cause."""
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
