"""Complex event processing: patterns of events on streams, with the names of Flink's CEP library, which PyFlink does not have.

CEP.pattern(stream.key_by(...), Pattern.begin("start").where(...).followed_by("end").where(...).within(Time.seconds(10)))
   ─▶ PatternStream ─▶ select(...) · flat_select(...) · process(...) ─▶ DataStream
"""

from __future__ import annotations

from tidegate.cep.pattern_stream import CEP, PatternStream
from tidegate.functions.cep.after_match_skip_strategy import AfterMatchSkipStrategy
from tidegate.functions.cep.conditions import IterativeCondition, SimpleCondition
from tidegate.functions.cep.errors import MalformedPatternException
from tidegate.functions.cep.functions import (
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    TimedOutPartialMatchHandler,
)
from tidegate.functions.cep.pattern import GroupPattern, Pattern, WithinType

__all__ = [
    "CEP",
    "AfterMatchSkipStrategy",
    "GroupPattern",
    "IterativeCondition",
    "MalformedPatternException",
    "Pattern",
    "PatternFlatSelectFunction",
    "PatternFlatTimeoutFunction",
    "PatternProcessFunction",
    "PatternSelectFunction",
    "PatternStream",
    "PatternTimeoutFunction",
    "SimpleCondition",
    "TimedOutPartialMatchHandler",
    "WithinType",
]
