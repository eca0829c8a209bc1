"""Answers of the REST endpoint in turn, in virtual time."""

from __future__ import annotations

import asyncio

from tidegate.jobmanager.rest.http.turns import PAUSE_FACTOR, PRESSED_FACTOR, REMEMBERED_S, WAITED_S, Turns


class Loop:
    """What waits lets time pass, and so does an answer."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.turns = Turns(lambda: self.now_s, self._sleep)
        self.began_s: list[float] = []

    async def _sleep(self, for_s: float) -> None:
        await asyncio.sleep(0)
        self.now_s += for_s

    async def answer(self, takes_s: float) -> None:
        await self.turns.wait()
        self.began_s.append(self.now_s)
        with self.turns.work():
            self.now_s += takes_s

    async def answer_at_once(self, number: int, takes_s: float) -> list[float]:
        """How long each began after the one before."""
        self.began_s.clear()
        await asyncio.gather(*(self.answer(takes_s) for _ in range(number)))
        return [after - before for before, after in zip(self.began_s, self.began_s[1:], strict=False)]


async def test_between_two_answers_there_is_as_much_time_for_control() -> None:
    loop = Loop()
    assert await loop.answer_at_once(4, 0.0625) == [0.0625 * (1 + PAUSE_FACTOR)] * 3
    loop.now_s += 1
    assert await loop.answer_at_once(1, 0.0625) == []
    assert loop.began_s == [loop.now_s - 0.0625], "who comes later waits for nothing"


async def test_where_requests_wait_long_nearly_all_the_time_is_for_control_until_they_do_not_any_more() -> None:
    loop = Loop()
    pauses = await loop.answer_at_once(6, WAITED_S / 2)
    assert pauses[0] == WAITED_S / 2 * (1 + PAUSE_FACTOR)
    assert pauses[-1] == WAITED_S / 2 * (1 + PRESSED_FACTOR)
    loop.now_s += REMEMBERED_S + 10
    assert await loop.answer_at_once(2, 0.0625) == [0.0625 * (1 + PAUSE_FACTOR)]
