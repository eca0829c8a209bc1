"""Settings: the layers, their order, and the places that problems name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.aio.settings import load_settings, variable_of, warnings_of_environment
from tidegate.model.configuration import all_keys
from tidegate.model.errors import ConfigurationError
from tidegate.model.options import CheckpointingOptions, FileOptions, RestOptions, TaskManagerOptions

YAML = """\
# a comment
execution:
  checkpointing:
    interval: 10 s
    dir: file:///chk
execution.checkpointing.timeout: 1 min
rest.port: 8099
restart-strategy: {type: off}
io.tmp.dirs: [/a, /b]
env.java.opts.all:
"""


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(YAML, encoding="utf-8")
    return path


def told(*arguments: object, **keywords: object) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(*arguments, **keywords)  # type: ignore[arg-type]
    return caught.value.message.splitlines()


def test_without_a_file_or_variables_there_are_only_defaults() -> None:
    assert len(load_settings(environment={})) == 0


def test_a_file_may_nest_its_keys_or_not(config_file: Path) -> None:
    configuration = load_settings(config_file, environment={})
    assert configuration.to_strings() == {
        "execution.checkpointing.dir": "file:///chk",
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.timeout": "1 min",
        "io.tmp.dirs": "/a;/b",
        "rest.port": "8099",
        "restart-strategy.type": "off",
    }
    assert configuration.source_of(CheckpointingOptions.INTERVAL) == "config.yaml line 4"
    assert configuration.get(FileOptions.TMP_DIRS) == ("/a", "/b")


def test_a_later_layer_wins(config_file: Path) -> None:
    environment = {"TIDEGATE_REST_PORT": "1", "TIDEGATE_TASKMANAGER_NUMBEROFTASKSLOTS": "3", "PATH": "/bin"}
    assert load_settings(config_file, environment={}).get(RestOptions.PORT) == 8099
    in_environment = load_settings(config_file, environment=environment)
    assert in_environment.get(RestOptions.PORT) == 1
    assert in_environment.get(TaskManagerOptions.NUM_SLOTS) == 3
    assert in_environment.source_of(RestOptions.PORT) == "TIDEGATE_REST_PORT"
    assert load_settings(config_file, ["rest.port=2", "rest.port = 3"], environment).get(RestOptions.PORT) == 3


def test_the_file_is_found_by_variable_or_in_the_directory_of_one(config_file: Path, tmp_path: Path) -> None:
    by_file = load_settings(environment={"TIDEGATE_CONFIG": str(config_file), "TIDEGATE_CONF_DIR": "/nowhere"})
    by_directory = load_settings(environment={"TIDEGATE_CONF_DIR": str(tmp_path)})
    assert by_file == by_directory == load_settings(config_file, environment={})


def test_variables_between_our_own_processes_are_no_options() -> None:
    assert len(load_settings(environment={"TIDEGATE__TOKEN": "x"})) == 0


def test_every_option_of_ours_has_a_variable_of_its_own() -> None:
    assert variable_of("rest.bind-address") == "TIDEGATE_REST_BIND_ADDRESS"
    assert variable_of("tidegate.mailbox.slice") == "TIDEGATE_MAILBOX_SLICE"
    assert all(variable_of(key).isidentifier() for key in all_keys())


def test_problems_of_all_layers_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("rest:\n  port: many\nrest.port: 1\nheartbeat.interval: 3 parsecs\n", encoding="utf-8")
    lines = told(path, ["oops", "x=1"], {"TIDEGATE_REST_PORTT": "1"})
    assert lines[0] == "bad configuration, 5 problems:"
    assert lines[1] == "  config.yaml line 3: rest.port is set twice (first in config.yaml line 2)"
    assert lines[2] == "  environment: unknown variable TIDEGATE_REST_PORTT; did you mean TIDEGATE_REST_PORT?"
    assert lines[3] == "  -D: expected key=value, not 'oops'"
    assert lines[4] == "  -D: unknown option 'x'"
    assert lines[5].startswith("  config.yaml line 4: heartbeat.interval: '3 parsecs' is not a duration")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1\n", "bad configuration: config.yaml line 2: not YAML: "),
        ("a: \x01\n", "bad configuration: config.yaml: not YAML: "),
        ("- rest.port\n", "bad configuration: config.yaml line 1: expected 'key: value' lines at the top level"),
        ("just words\n", "bad configuration: config.yaml line 1: expected 'key: value' lines at the top level"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    assert told(path, environment={})[0].startswith(expected)


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("# nothing\n", encoding="utf-8")
    assert len(load_settings(path, environment={})) == 0


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    missing, binary = tmp_path / "missing.yaml", tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\xfa")
    assert told(missing, environment={}) == [
        f"bad configuration: cannot read the configuration file {missing}: No such file or directory"
    ]
    assert told(binary, environment={})[0].endswith("it is not UTF-8 text")


OF_KUBERNETES = {
    # of the services `tidegate`, `tidegate-jobmanager`, `tidegate-rest` and `tidegate-7`, as a container gets them
    "TIDEGATE_SERVICE_HOST": "10.0.171.239",
    "TIDEGATE_SERVICE_PORT": "6123",
    "TIDEGATE_SERVICE_PORT_RPC": "6123",
    "TIDEGATE_SERVICE_PORT_REST_API": "8081",
    "TIDEGATE_PORT": "tcp://10.0.171.239:6123",
    "TIDEGATE_PORT_6123_TCP": "tcp://10.0.171.239:6123",
    "TIDEGATE_PORT_6123_TCP_PROTO": "tcp",
    "TIDEGATE_PORT_6123_TCP_PORT": "6123",
    "TIDEGATE_PORT_6123_TCP_ADDR": "10.0.171.239",
    "TIDEGATE_JOBMANAGER_SERVICE_HOST": "fd00::1",
    "TIDEGATE_JOBMANAGER_PORT_53_UDP": "udp://[fd00::1]:53",
    "TIDEGATE_JOBMANAGER_PORT_53_UDP_ADDR": "fd00::1",
    "TIDEGATE_REST_PORT": "tcp://10.0.171.240:8081",
    "TIDEGATE_7_SERVICE_PORT": "6123",
}


@pytest.mark.parametrize("variable", OF_KUBERNETES)
def test_what_kubernetes_puts_into_a_container_is_left_alone(variable: str) -> None:
    assert load_settings(environment={variable: OF_KUBERNETES[variable]}).to_strings() == {}


def test_an_option_whose_variable_a_service_may_take_is_an_option_all_the_same() -> None:
    found = load_settings(environment={**OF_KUBERNETES, "TIDEGATE_REST_PORT": "8099"})
    assert found.to_strings() == {"rest.port": "8099"}
    with pytest.raises(ConfigurationError, match="TIDEGATE_REST_PORT: rest.port: 'eight' is not a whole number"):
        load_settings(environment={"TIDEGATE_REST_PORT": "eight"})


@pytest.mark.parametrize(
    "variable",
    [
        "TIDEGATE_PORT",
        "TIDEGATE_REST_PORTS",
        "TIDEGATE_CHECKPOINTING_INTERVAL",
        "TIDEGATE_PARALLELISM",
        "TIDEGATE_JOBMANAGER_HOST",
    ],
)
def test_what_is_probably_meant_to_be_an_option_is_refused(variable: str) -> None:
    with pytest.raises(ConfigurationError, match=f"unknown variable {variable}; did you mean TIDEGATE_"):
        load_settings(environment={variable: "6123"})
    assert warnings_of_environment({variable: "6123"}) == []


@pytest.mark.parametrize(
    "variable", ["TIDEGATE_TEST_CACHE", "TIDEGATE_IMAGE", "TIDEGATE_API_KEY", "TIDEGATE_X_SERVICE_HOSTS"]
)
def test_what_is_no_option_at_all_may_be_a_deployments_own(variable: str) -> None:
    environment = {variable: "x", "TIDEGATE_REST_PORT": "8082", "TIDEGATE_CONFIG": "", "TIDEGATE__PRIVATE": "x"}
    assert load_settings(environment=environment).to_strings() == {"rest.port": "8082"}
    assert warnings_of_environment(environment) == [f"environment: no options, and left alone: {variable}"]
