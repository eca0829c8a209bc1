"""A configuration survives its texts, and a stronger layer always wins."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.configuration import Configuration, Setting
from tidegate.model.options import CheckpointingOptions, ConfigOption, JobManagerOptions, RuntimeOptions, TaskOptions

# Options that no cross-check ties to another one.
FREE: tuple[ConfigOption[Any], ...] = (
    CheckpointingOptions.TIMEOUT,
    CheckpointingOptions.INLINE_THRESHOLD,
    CheckpointingOptions.NUM_RETAINED,
    JobManagerOptions.RPC_PORT,
    RuntimeOptions.BATCH_SIZE,
    TaskOptions.CANCELLATION_INTERVAL,
)


@st.composite
def texts(draw: st.DrawFn) -> dict[str, str]:
    chosen = draw(st.lists(st.sampled_from(FREE), unique=True))
    return {
        option.key: option.format(draw(st.integers(int(option.minimum or 0), int(option.maximum or 2**40))))
        for option in chosen
    }


@given(texts())
def test_a_configuration_survives_its_texts(given_texts: dict[str, str]) -> None:
    configuration = Configuration.from_strings(given_texts)
    assert Configuration.from_strings(configuration.to_strings()) == configuration
    assert configuration.to_strings() == given_texts


@given(texts(), texts())
def test_the_stronger_layer_wins_and_the_weaker_one_fills_the_gaps(
    weak: dict[str, str], strong: dict[str, str]
) -> None:
    layers = [{key: Setting(text) for key, text in layer.items()} for layer in (weak, strong)]
    merged = Configuration.from_strings(weak).merged(Configuration.from_strings(strong))
    assert Configuration.from_layers(layers) == merged
    assert merged.to_strings() == weak | strong
