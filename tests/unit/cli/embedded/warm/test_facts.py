"""May this program run on the warm cluster, and if not, why?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.cli.embedded.warm.facts import (
    Facts,
    Standing,
    Use,
    differences,
    digests_of_environment,
    facts_now,
    why_not,
)
from tidegate.model.errors import ExternalError

FACTS = Facts("2.3.0", "/site/tidegate", "3.11.9 of /venv", "p1", "0022", {"HOME": "h"}, {"io.tmp.dirs": "t"})
WARM = Standing(41, Use.FREE, 0, 2, 1_800_000, FACTS)


def test_a_program_with_the_same_facts_runs_on_it() -> None:
    assert why_not(WARM, FACTS) == ""


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (
            replace(FACTS, version="2.4.0"),
            "it is of tidegate 2.3.0 in /site/tidegate, and the program of 2.4.0 in /site/tidegate",
        ),
        (
            replace(FACTS, code="/other"),
            "it is of tidegate 2.3.0 in /site/tidegate, and the program of 2.3.0 in /other",
        ),
        (replace(FACTS, interpreter="3.12"), "its Python is 3.11.9 of /venv, and the program's 3.12"),
        (replace(FACTS, packages="p2"), "packages were installed or removed since it was started"),
        (replace(FACTS, umask="0077"), "its umask is 0022, and the program's 0077"),
        (replace(FACTS, environment={"HOME": "other"}), "environment variables differ: HOME"),
        (replace(FACTS, environment={}), "environment variables differ: HOME"),
        (replace(FACTS, settings={**FACTS.settings, "rest.port": "x"}), "options of its processes differ: rest.port"),
    ],
)
def test_each_fact_in_which_they_differ_is_a_reason(program: Facts, reason: str) -> None:
    assert why_not(WARM, program) == reason


def test_all_reasons_are_told_at_once() -> None:
    assert why_not(WARM, replace(FACTS, umask="0077", settings={})).count("; ") == 1


def test_another_python_is_one_reason_and_its_packages_are_none_besides() -> None:
    assert list(differences(FACTS, replace(FACTS, interpreter="3.12", packages="p2"))) == [
        "its Python is 3.11.9 of /venv, and the program's 3.12"
    ]


def test_of_many_variables_the_first_are_named() -> None:
    many = replace(FACTS, environment={**FACTS.environment, **{f"V{n}": "" for n in range(7)}})
    assert why_not(WARM, many) == "environment variables differ: V0, V1, V2, V3, V4 and 2 more"


@pytest.mark.parametrize(
    ("use", "holder", "reason"), [(Use.STARTING, 0, "it is starting"), (Use.LENT, 7, "it runs another program (pid 7)")]
)
def test_only_a_free_one_is_used(use: Use, holder: int, reason: str) -> None:
    assert why_not(replace(WARM, use=use, holder=holder), FACTS) == reason


def test_what_terminals_set_says_nothing_about_a_job() -> None:
    one = {"TERM": "xterm", "PWD": "/a", "TMUX_PANE": "%1", "_": "python", "SHLVL": "1", "API_KEY": "k"}
    assert digests_of_environment(one).keys() == {"API_KEY"}


def test_values_are_never_passed_on() -> None:
    found = facts_now({"s3.secret-key": "very secret", "tidegate.warm-cluster.idle-timeout": "1 min"})
    assert "very secret" not in str(found.to_json())
    assert found.settings.keys() == {"s3.secret-key"}, "how long it is kept says nothing about a cluster"


def test_a_standing_arrives_as_it_was_sent() -> None:
    assert Standing.from_json(WARM.to_json()) == WARM
    assert Standing.from_json({**WARM.to_json(), "facts": facts_now({}).to_json()}).facts == facts_now({})


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {**WARM.to_json(), "facts": {}},
        {**WARM.to_json(), "facts": None},
        {**WARM.to_json(), "use": "new"},
        {**WARM.to_json(), "pid": "?"},
    ],
)
def test_a_standing_of_another_version_is_refused(sent: dict[str, object]) -> None:
    with pytest.raises(ExternalError, match="of another version of tidegate"):
        Standing.from_json(sent)
