"""External resources: declared, found by a driver, and what is wrong with them in one error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tidegate.common.externalresource import ExternalResourceDriver, ExternalResourceInfo
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError, ExternalError
from tidegate.taskmanager.service.external_resources import declared_in, discover

HERE = __name__


class Boards(ExternalResourceDriver):
    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._family = parameters["family"]

    def retrieve_resource_info(self, amount: int) -> set[ExternalResourceInfo]:
        return {ExternalResourceInfo({"serial": f"{self._family}-{number}"}) for number in range(min(amount, 3))}


def fails(parameters: Mapping[str, str]) -> ExternalResourceDriver:
    raise OSError("no such bus")


def no_driver(parameters: Mapping[str, str]) -> object:
    return 7


def declared(name: str = "boards", **settings: str) -> Configuration:
    keys = {f"external-resource.{name}.{key.replace('_', '-')}": text for key, text in settings.items()}
    return Configuration.from_strings({"external-resources": name, **keys})


def factory(name: str) -> dict[str, str]:
    return {"driver-factory.class": f"{HERE}:{name}"}


def found(configuration: Configuration) -> dict[str, list[dict[str, str]]]:
    result: dict[str, list[dict[str, str]]] = json.loads(discover(declared_in(configuration)))
    return result


def test_a_driver_of_ones_own_says_what_is_there() -> None:
    configuration = declared(amount="2", **factory("Boards"), **{"param.family": "x"})
    assert found(configuration) == {"boards": [{"serial": "x-0"}, {"serial": "x-1"}]}
    assert not configuration.warnings(), "its keys have an effect"


def test_nothing_is_found_without_a_declaration_or_a_driver() -> None:
    assert found(Configuration.from_strings({})) == {}
    assert found(Configuration.from_strings({"external-resources": "none"})) == {}
    assert found(declared(amount="2")) == {}


@pytest.mark.parametrize("kind", ["GPUDriverFactory", "org.apache.flink.externalresource.gpu.GPUDriverFactory"])
def test_flinks_driver_of_gpus_runs_a_discovery_script(tmp_path: Path, kind: str) -> None:
    script = tmp_path / "find.sh"
    script.write_text('#!/bin/sh\ntest "$2" = --quick || exit 3\necho "$1, 7,9"\n')
    script.chmod(0o755)
    given = {"param.discovery-script.path": str(script), "driver-factory.class": kind}
    quick = {"param.discovery-script.args": "--quick"}
    assert found(declared("gpu", amount="2", **given, **quick)) == {"gpu": [{"index": "2"}, {"index": "7"}]}
    with pytest.raises(ExternalError, match="'gpu': its driver failed .* ended with exit code 3: without output"):
        found(declared("gpu", amount="2", **given))
    with pytest.raises(ExternalError, match="'gpu': its driver found 3, and external-resource.gpu.amount is 4"):
        found(declared("gpu", amount="4", **given, **quick))


@pytest.mark.parametrize(
    ("configuration", "words"),
    [
        (declared(amount="0"), r"external-resource.boards.amount is 0; it must be a number of at least 1"),
        (declared(), r"external-resource.boards.amount is not set"),
        (declared("a b", amount="1"), r"external-resources: 'a b' is no name"),
        (
            declared(amount="1", **{"driver-factory.class": "com.acme.Boards"}),
            "give module:callable, or GPUDriverFactory",
        ),
        (declared(amount="1", **{"driver-factory.class": "no_such_module:x"}), "makes no driver .*no_such_module"),
        (declared(amount="1", **factory("fails")), "makes no driver .OSError: no such bus"),
        (declared(amount="1", **factory("no_driver")), "made a int; make a"),
    ],
)
def test_a_bad_declaration_is_one_clear_error(configuration: Configuration, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        found(configuration)


def test_all_problems_are_told_at_once() -> None:
    texts = {"external-resources": "a;b", "external-resource.a.amount": "x"}
    with pytest.raises(ConfigurationError, match=r"a.amount is x.*b.amount is not set"):
        declared_in(Configuration.from_strings(texts))


def test_infos_are_equal_by_what_they_say() -> None:
    one, same = ExternalResourceInfo({"index": "1"}), ExternalResourceInfo({"index": "1"})
    assert {one} == {same}
    assert one != ExternalResourceInfo({"index": "2"})
    assert one.get_property("index") == "1"
    assert one.get_property("model") is None
    assert one.get_keys() == {"index"}
