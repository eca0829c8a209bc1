"""The names of files that hold blobs: ``<sha256>-<term>`` where leaders share a directory, ``<sha256>`` elsewhere."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

from tidegate.model.ids import BlobKey

_STORED = re.compile(r"(?P<key>[0-9a-f]{64})(?:-(?P<term>\d+))?")
_UPLOAD = re.compile(r"\.upload-(?:(?P<term>\d+)-)?[0-9a-f]+")
_BEFORE_ALL_TERMS = -1
"""The term of files without one in their name."""


class BlobNames:
    """The file of each blob in one directory, for the leader of ``term``; without a term no other process writes there."""

    def __init__(self, term: int | None = None) -> None:
        self._term = term
        self._terms: dict[BlobKey, int] = {}
        self._names: dict[BlobKey, str] = {}

    def found(self, names: Iterable[str]) -> None:
        """Registers existing files. Of two files with the same content the one of the later leader counts, since no earlier one deletes it."""
        for name in names:
            parts = _STORED.fullmatch(name)
            if parts is None:
                continue
            key, term = BlobKey(parts["key"]), _term_of(parts)
            if term >= self._terms.get(key, _BEFORE_ALL_TERMS):
                self._terms[key], self._names[key] = term, name

    def get(self, key: str) -> str | None:
        """Returns the file of a blob, if there is one."""
        return self._names.get(BlobKey(key))

    def add(self, key: BlobKey) -> str:
        """Returns the file into which this leader writes the blob, even if an earlier leader has one of the same content."""
        self._terms[key] = _BEFORE_ALL_TERMS if self._term is None else self._term
        self._names[key] = key if self._term is None else f"{key}-{self._term}"
        return self._names[key]

    def remove(self, key: BlobKey) -> str:
        """Forgets a blob; returns its file, to be deleted."""
        self._terms.pop(key, None)
        return self._names.pop(key, key)

    def of_upload(self, random: str) -> str:
        """Returns the file for an upload in progress."""
        return f".upload-{random}" if self._term is None else f".upload-{self._term}-{random}"

    def may_go(self, name: str, needed: Container[BlobKey]) -> bool:
        """Tells whether a file may be deleted: no job needs it, and no later leader has written it."""
        stored, upload = _STORED.fullmatch(name), _UPLOAD.fullmatch(name)
        if stored is not None:
            key = BlobKey(stored["key"])
            return self._is_past(_term_of(stored)) and not (key in needed and self._names.get(key) == name)
        return upload is None or self._is_past(_term_of(upload))

    def _is_past(self, term: int) -> bool:
        return self._term is None or term <= self._term


def _term_of(parts: re.Match[str]) -> int:
    return int(parts["term"]) if parts["term"] is not None else _BEFORE_ALL_TERMS
