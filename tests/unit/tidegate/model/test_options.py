"""The declarations: what holds for every option."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.model.options import GROUPS, ConfigOption, declared, options_of
from tidegate.model.options.flink_keys import FLINK_KEYS, FLINK_PREFIXES, OLD_KEYS

ALL = list(declared().values())
each_option = pytest.mark.parametrize("option", ALL, ids=lambda option: option.key)


def test_no_key_is_declared_twice() -> None:
    assert sum(len(options_of(group)) for group in GROUPS) == len(ALL)


@each_option
def test_a_key_is_flinks_or_says_that_it_is_ours(option: ConfigOption[Any]) -> None:
    ours = ("tidegate.", "spark.", "rest.dashboard.dir")
    assert option.key in FLINK_KEYS or option.key.startswith((*ours, *FLINK_PREFIXES))


@each_option
def test_a_default_survives_its_text_and_lies_within_the_bounds(option: ConfigOption[Any]) -> None:
    if option.default is not None:
        assert option.parse(option.format(option.default)) == option.default


@each_option
def test_the_documentation_is_one_sentence_with_a_full_stop(option: ConfigOption[Any]) -> None:
    assert option.doc.endswith(".")
    assert "\n" not in option.doc


def test_every_old_name_leads_to_a_current_one() -> None:
    assert set(OLD_KEYS.values()) <= FLINK_KEYS
    assert not OLD_KEYS.keys() & FLINK_KEYS


def test_keys_of_flink_are_flinks() -> None:
    """Whoever renames a package of ours must not rename them."""
    assert [key for key in (*FLINK_KEYS, *FLINK_PREFIXES, *OLD_KEYS) if "tidegate" in key] == []
    assert "taskmanager.runtime.fs-timeout" in FLINK_KEYS
