"""Names of internal columns between the rows and the results of an aggregation; those that the aggregation adds never clash with a user's.

    a user's name          its name inside
    ---------------------  ----------------------------------------------------------------------------------
    x                      x
    x__sum, __rows, ...    x__sum__value, __rows__value: any name that could be one of ours gets a further suffix
    (ours)                 x__sum, x__count, x__high of the average x; x__timed, x__upper of the column x; __window, __rows, __hash

So two names inside are equal only if they are the same column of ours, or the same name of the user's. It depends on the name alone: adding an
aggregate to a job never changes what the columns of another one are called in state.
"""

from __future__ import annotations

from collections.abc import Sequence

WINDOW = "__window"
"""The column of a row's window number, where a batch has rows of many windows."""
ROWS = "__rows"
"""The column of how many rows a partial aggregates, which the receiver counts when it drops the partial as late."""
HASH = "__hash"
"""The column of the hash of a row's key."""
TIMED = "__timed"
"""The suffix of columns of (time, value), of which ``first`` and ``last`` are computed."""
UPPER = "__upper"
"""The suffix of columns of the upper 32 bits of 64-bit integers, which their averages need."""
_USERS = "__value"
_SUM, _COUNT, _HIGH = "__sum", "__count", "__high"
_ENDS = (_SUM, _COUNT, _HIGH, TIMED, UPPER, _USERS)


def internal_name(name: str) -> str:
    """Returns the internal name of a user's column."""
    return name + _USERS if name in (WINDOW, ROWS, HASH) or name.endswith(_ENDS) else name


def sum_of(average: str) -> str:
    """Returns the partial column of the sum of an average; of integers it is the sum modulo 2**64."""
    return average + _SUM


def count_of(average: str) -> str:
    """Returns the partial column of the number of values of an average."""
    return average + _COUNT


def high_of(average: str) -> str:
    """Returns the partial column of the sum of the upper 32 bits of the values of an average, if these have 64."""
    return average + _HIGH


def average_of_high(name: str) -> str | None:
    """Returns the average whose ``high_of`` it is; ``None`` for other columns."""
    return name.removesuffix(_HIGH) if name.endswith(_HIGH) else None


def earlier_name(name: str, names: Sequence[str]) -> str | None:
    """Returns the name of a user's column in versions without internal names, if it differed and is not one of ``names``, which are those of the job."""
    plain = name.removesuffix(_USERS)
    return plain if plain != name and plain not in names else None
