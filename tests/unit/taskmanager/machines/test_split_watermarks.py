"""The watermark of many splits (after Flink's ``WatermarkOutputMultiplexerTest`` and ``WatermarksWithIdlenessTest``)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taskmanager.machines.split_watermarks import NO_WATERMARK, SplitWatermarks


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


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("advanced"), st.sampled_from("abc"), st.integers(0, 100)),
            st.tuples(st.just("seen"), st.sampled_from("abc"), st.just(0)),
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
            case "retired":
                splits.retired([split])
            case "passed":
                splits.passed(number)
        assert last <= splits.watermark() <= highest
        last = splits.watermark()
