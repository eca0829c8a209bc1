"""The watermark of many splits (after Flink's ``WatermarkOutputMultiplexerTest`` and ``WatermarksWithIdlenessTest``)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.channel_events import NO_WATERMARK
from tidegate.taskmanager.machines.split_watermarks import SplitWatermarks


def made(**watermarks: int) -> SplitWatermarks:
    splits = SplitWatermarks(idle_timeout_ms=100)
    for split, watermark in watermarks.items():
        splits.seen(split)
        splits.advanced(split, watermark)
    return splits


def test_the_smallest_counts_and_a_split_without_a_watermark_holds_back() -> None:
    splits = made(a=5, b=3)
    assert splits.watermark() == 3
    splits.seen("c")
    splits.advanced("b", 10)
    assert splits.watermark() == 3
    splits.advanced("c", 7)
    assert splits.watermark() == 5
    assert made().watermark() == NO_WATERMARK


def test_a_new_split_behind_does_not_bring_it_back() -> None:
    splits = made(a=5)
    assert splits.watermark() == 5
    splits.seen("b")
    splits.advanced("b", 2)
    splits.advanced("a", 9)
    assert splits.watermark() == 5
    splits.advanced("b", 8)
    assert splits.watermark() == 8


def test_a_split_without_records_is_idle_after_the_timeout_and_holds_nothing_back() -> None:
    splits = made(a=5, b=3)
    splits.passed(60)  # since the records of above
    splits.advanced("a", 20)
    for _ in range(2):
        splits.seen("a")
        splits.passed(50)
        assert splits.watermark() in (3, 20)
    assert splits.watermark() == 20
    assert not splits.is_idle()
    splits.seen("b")
    splits.advanced("b", 25)
    splits.advanced("a", 30)
    assert splits.watermark() == 25


def test_all_idle_is_idle_and_stays_where_it_is() -> None:
    splits = made(a=5, b=3)
    assert splits.watermark() == 3
    for _ in range(4):
        splits.passed(50)
    assert splits.is_idle()
    assert splits.watermark() == 3
    splits.seen("a")
    assert not splits.is_idle()
    assert splits.watermark() == 5


def test_a_generator_says_itself_whether_it_is_idle() -> None:
    splits = made(a=5, b=3)
    splits.marked("b", is_idle=True)
    assert splits.watermark() == 5
    splits.marked("b", is_idle=False)
    assert splits.watermark() == 5


def test_the_last_split_leaves_its_watermark_behind() -> None:
    splits = made(a=5, b=3)
    splits.retired(["b", "unknown"])
    assert splits.watermark() == 5
    splits.advanced("a", 9)
    splits.retired(["a"])
    assert splits.watermark() == 9
    assert not splits.is_idle()
    splits.seen("c")
    splits.advanced("c", 12)
    assert splits.watermark() == 12


def test_a_split_holds_back_from_when_it_is_assigned_until_it_is_idle() -> None:
    splits = SplitWatermarks(idle_timeout_ms=100)
    splits.assigned("a")
    splits.assigned("b")
    splits.seen("a")
    splits.advanced("a", 9)
    assert splits.watermark() == NO_WATERMARK
    for _ in range(3):
        splits.seen("a")
        splits.passed(60)
    assert splits.watermark() == 9


def test_a_split_that_is_expected_holds_back_what_its_first_record_allows_and_is_never_idle() -> None:
    splits = SplitWatermarks(idle_timeout_ms=100)
    for split in "abc":
        splits.assigned(split)
        splits.expected(split)
    assert len(splits) == 3
    splits.expected("b", 40)
    splits.expected("c", 20)
    splits.seen("a")
    splits.advanced("a", 30)
    assert splits.watermark() == 20
    for _ in range(4):
        splits.passed(60)
    assert not splits.is_idle(), "there is more to read"
    assert splits.watermark() == 20
    splits.seen("c")
    splits.advanced("c", 25)
    assert splits.watermark() == 25
    splits.retired(["a", "c"])
    assert splits.watermark() == 40
    splits.seen("b")
    splits.advanced("b", 41)
    assert splits.watermark() == 41
    assert not splits.are_expected


def test_a_split_without_records_holds_nothing_back_when_it_has_ended() -> None:
    splits = made(a=5)
    splits.expected("empty")
    splits.advanced("a", 8)
    assert splits.watermark() == NO_WATERMARK
    splits.retired(["empty"])
    assert splits.watermark() == 8


def test_the_first_record_of_a_split_is_held_at_until_it_is_advanced() -> None:
    splits = SplitWatermarks()
    splits.expected("a", 7)
    assert splits.watermark() == 7
    splits.seen("a")
    splits.expected("b", 3)
    splits.retired(["b"])
    assert splits.watermark() == 7


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("advanced"), st.sampled_from("abc"), st.integers(0, 100)),
            st.tuples(st.just("seen"), st.sampled_from("abc"), st.just(0)),
            st.tuples(st.just("assigned"), st.sampled_from("abc"), st.just(0)),
            st.tuples(st.just("expected"), st.sampled_from("abc"), st.integers(0, 100)),
            st.tuples(st.just("retired"), st.sampled_from("abc"), st.just(0)),
            st.tuples(st.just("passed"), st.just(""), st.integers(0, 200)),
        ),
        max_size=30,
    )
)
def test_it_never_goes_back_and_never_passes_every_split(events: list[tuple[str, str, int]]) -> None:
    splits, last, highest = SplitWatermarks(100), NO_WATERMARK, NO_WATERMARK
    for name, split, number in events:
        match name:
            case "advanced":
                splits.advanced(split, number)
                highest = max(highest, number)
            case "seen":
                splits.seen(split)
            case "assigned":
                splits.assigned(split)
            case "expected":
                splits.expected(split, number)
                highest = max(highest, number)
            case "retired":
                splits.retired([split])
            case "passed":
                splits.passed(number)
        assert last <= splits.watermark() <= highest
        last = splits.watermark()


@given(
    st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=6), min_size=1, max_size=5),
    st.integers(0, 10),
    st.booleans(),
    st.data(),
)
def test_no_record_is_late_whatever_order_splits_are_read_in(
    times: list[list[int]], bound: int, is_first_known: bool, data: st.DataObject
) -> None:
    """Each split keeps to the bound; splits are read one after the other, as a file source does."""
    kept = [_in_bound(split, bound) for split in times]
    splits = SplitWatermarks(idle_timeout_ms=1)
    for place, split in enumerate(kept):
        splits.expected(str(place), split[0] - bound - 1 if is_first_known else NO_WATERMARK)
    for place in data.draw(st.permutations(range(len(kept)))):
        highest = 0
        for time in kept[place]:
            assert time > splits.watermark()
            highest = max(highest, time)
            splits.seen(str(place))
            splits.advanced(str(place), highest - bound - 1)
            splits.passed(5)
        if data.draw(st.booleans()):
            splits.retired([str(place)])


def _in_bound(times: list[int], bound: int) -> list[int]:
    """None is further behind the highest before it."""
    kept: list[int] = []
    for time in times:
        kept.append(max(time, max(kept, default=time) - bound))
    return kept
