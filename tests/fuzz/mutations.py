"""Inputs that are almost valid: valid ones with a few edits, which Hypothesis takes away again from one that finds something."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TypeAlias

from hypothesis import strategies as st

Edit: TypeAlias = tuple[str, float, int, bytes]
"""What is done, where (0 to 1), with how many bytes, and with which."""

_TELLING = [
    b"",
    b"\0",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\x00\x00\x00\x80",
    b"\xff" * 9 + b"\x01",
    b"[" * 3000,
    b"\x91" * 3000,
    b"\xed\xa0\x80",
    b"-1",
    b"1e999",
]
"""Lengths that are too large, nesting, surrogates, numbers."""


def mutated(corpus: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """One of ``corpus`` with up to six edits."""
    edits = st.tuples(
        st.sampled_from(["set", "insert", "delete", "repeat", "cut"]),
        st.floats(0, 1),
        st.integers(1, 64),
        st.sampled_from(_TELLING) | st.binary(max_size=8),
    )
    return st.builds(
        lambda data, found: reduce(_edited, found, data), st.sampled_from(list(corpus)), st.lists(edits, max_size=6)
    )


def _edited(data: bytes, edit: Edit) -> bytes:
    what, where, count, new = edit
    at = int(where * len(data))
    match what:
        case "set":
            return data[:at] + new + data[at + len(new) :]
        case "insert":
            return data[:at] + new + data[at:]
        case "delete":
            return data[:at] + data[at + count :]
        case "repeat":
            return data[:at] + data[at : at + count] * 3 + data[at + count :]
        case _:
            return data[:at]
