"""``assert_exactly_once``: compares the written records of a job with the expected ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable

from tidegate.model.values import Record

_SHOWN = 5
"""The most records of each kind in a message: enough to see a pattern."""


def assert_exactly_once(
    expected: Iterable[Hashable], actual: Iterable[Hashable], *, in_order_by: Callable[[Record], Hashable] | None = None
) -> None:
    """Asserts that ``actual`` has the same records as ``expected``, each as often.

    ``in_order_by``: a key of a record; the records of one key must come in their expected order. Raises ``AssertionError``
    that counts and shows what is lost, what came more than once, and what was not expected.
    """
    wanted, found = list(expected), list(actual)
    problems = _differences(Counter(wanted), Counter(found))
    if not problems and in_order_by is not None:
        problems = _out_of_order(wanted, found, in_order_by)
    if problems:
        raise AssertionError("\n".join([f"not exactly once ({len(wanted)} expected, {len(found)} found):", *problems]))


def _differences(wanted: Counter[Hashable], found: Counter[Hashable]) -> list[str]:
    lost = wanted - found
    more = found - wanted
    repeated = Counter({record: count for record, count in more.items() if record in wanted})
    strange = Counter({record: count for record, count in more.items() if record not in wanted})
    kinds = (("lost", lost), ("more than once", repeated), ("not expected", strange))
    return [f"  {what}: {counted.total()}, such as {_shown(counted)}" for what, counted in kinds if counted]


def _out_of_order(wanted: list[Record], found: list[Record], key: Callable[[Record], Hashable]) -> list[str]:
    expected, actual = _by_key(wanted, key), _by_key(found, key)
    wrong = [one for one in expected if expected[one] != actual[one]]
    return [f"  out of order: {len(wrong)} keys, such as {wrong[0]!r}: {actual[wrong[0]][:_SHOWN]!r}"] if wrong else []


def _by_key(records: list[Record], key: Callable[[Record], Hashable]) -> dict[Hashable, list[Record]]:
    found: defaultdict[Hashable, list[Record]] = defaultdict(list)
    for record in records:
        found[key(record)].append(record)
    return found


def _shown(counted: Counter[Hashable]) -> str:
    return ", ".join(repr(record) for record, _ in counted.most_common(_SHOWN))
