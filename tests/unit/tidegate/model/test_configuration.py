"""Configurations: what is read, what is refused, what is warned about."""

from __future__ import annotations

import pickle

import pytest

from tidegate.model.configuration import Configuration, Setting
from tidegate.model.errors import ConfigurationError
from tidegate.model.graph import CheckpointingMode
from tidegate.model.options import (
    CheckpointingOptions,
    CheckpointRetention,
    ExecutionOptions,
    FileOptions,
    PipelineOptions,
    RestartStrategyOptions,
    RestartStrategyType,
    RestOptions,
    RuntimeOptions,
    TaskManagerOptions,
)


def problems_of(texts: dict[str, str]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Configuration.from_strings(texts)
    return caught.value.message


def test_an_empty_configuration_has_the_defaults() -> None:
    configuration = Configuration()
    assert configuration.get(CheckpointingOptions.TIMEOUT) == 600_000
    assert configuration.get(CheckpointingOptions.INTERVAL) is None
    assert configuration.get(CheckpointingOptions.MODE) is CheckpointingMode.EXACTLY_ONCE
    assert configuration.get(ExecutionOptions.BUFFER_TIMEOUT) == 5
    assert not configuration.is_set(CheckpointingOptions.TIMEOUT)
    assert configuration.warnings() == ()


def test_texts_are_read_by_the_type_of_their_option() -> None:
    configuration = Configuration.from_strings(
        {
            "execution.checkpointing.interval": "500 ms",
            "execution.checkpointing.data-inline-threshold": "64 kb",
            "execution.checkpointing.externalized-checkpoint-retention": "retain-on-cancellation",
            "pipeline.operator-chaining.enabled": "FALSE",
            "restart-strategy.exponential-delay.jitter-factor": "0.25",
            "restart-strategy.type": "failurerate",
            "io.tmp.dirs": "[/a, '/b c']",
        }
    )
    assert configuration.get(CheckpointingOptions.INTERVAL) == 500
    assert configuration.get(CheckpointingOptions.INLINE_THRESHOLD) == 65_536
    assert configuration.get(CheckpointingOptions.RETENTION) is CheckpointRetention.RETAIN_ON_CANCELLATION
    assert configuration.get(PipelineOptions.OPERATOR_CHAINING) is False
    assert configuration.get(RestartStrategyOptions.EXPONENTIAL_JITTER) == 0.25
    assert configuration.get(RestartStrategyOptions.TYPE) is RestartStrategyType.FAILURE_RATE
    assert configuration.get(FileOptions.TMP_DIRS) == ("/a", "/b c")


@pytest.mark.parametrize("text", ["none", "off", "disable"])
def test_flink_spells_no_restart_in_three_ways(text: str) -> None:
    assert (
        Configuration.from_strings({"restart-strategy": text}).get(RestartStrategyOptions.TYPE)
        is RestartStrategyType.NONE
    )


def test_an_old_name_sets_the_option_and_is_named_once() -> None:
    configuration = Configuration.from_strings({"state.checkpoints.dir": "/chk"}, "config.yaml line 2")
    assert configuration.get(CheckpointingOptions.DIRECTORY) == "/chk"
    assert configuration.source_of(CheckpointingOptions.DIRECTORY) == "config.yaml line 2"
    assert configuration.warnings() == (
        "state.checkpoints.dir (config.yaml line 2) is the old name of execution.checkpointing.dir",
    )


def test_the_current_name_wins_over_an_old_one_beside_it() -> None:
    configuration = Configuration.from_strings({"state.checkpoints.dir": "/old", "execution.checkpointing.dir": "/new"})
    assert configuration.get(CheckpointingOptions.DIRECTORY) == "/new"


def test_an_old_name_in_a_stronger_layer_wins_over_the_current_one_in_a_weaker() -> None:
    file = {"execution.checkpointing.dir": Setting("/file", "config.yaml line 1")}
    line = {"state.checkpoints.dir": Setting("/line", "-D")}
    configuration = Configuration.from_layers([file, line])
    assert configuration.get(CheckpointingOptions.DIRECTORY) == "/line"
    assert configuration.source_of(CheckpointingOptions.DIRECTORY) == "-D"


def test_an_option_may_fall_back_to_another_option() -> None:
    configuration = Configuration.from_strings({"jobmanager.rpc.address": "jm-1", "pekko.ask.timeout": "7 s"})
    assert configuration.get(RestOptions.ADDRESS) == "jm-1"
    assert configuration.get(TaskManagerOptions.SLOT_TIMEOUT) == 7_000
    assert configuration.warnings() == ()


def test_keys_of_flink_without_effect_are_accepted_with_one_warning() -> None:
    configuration = Configuration.from_strings(
        {
            "rest.profiling.enabled": "true",
            "execution.checkpointing.file-merging.max-file-size": "16 mb",
            "table.exec.state.ttl": "1 h",
        },
        "-D",
    )
    (warning,) = configuration.warnings()
    assert warning.startswith(
        "known to Flink, without effect here: execution.checkpointing.file-merging.max-file-size (-D), rest"
    )
    assert configuration.get(CheckpointingOptions.FILE_MERGING_MAX_SIZE) == 16 << 20


def test_spark_properties_pass_through() -> None:
    texts = {"spark.master": "spark://host:7077", "spark.executor.memory": "4g", "rest.port": "0"}
    configuration = Configuration.from_strings(texts)
    assert configuration.spark_properties() == {"spark.executor.memory": "4g", "spark.master": "spark://host:7077"}
    assert configuration.warnings() == ()


def test_an_unknown_key_is_refused_with_the_nearest() -> None:
    assert problems_of({"execution.checkpointing.intervall": "1 s"}) == (
        "bad configuration: unknown option 'execution.checkpointing.intervall'; "
        "did you mean 'execution.checkpointing.interval'?"
    )


def test_a_key_like_no_other_is_refused_without_a_guess() -> None:
    assert problems_of({"zzz": "1"}) == "bad configuration: unknown option 'zzz'"


@pytest.mark.parametrize(
    ("key", "text", "told"),
    [
        ("execution.checkpointing.interval", "9 ms", "below the least allowed value, 10 ms"),
        ("execution.checkpointing.interval", "ten", "is not a duration"),
        ("rest.port", "65536", "above the greatest allowed value, 65535"),
        ("rest.port", "8_081", "is not a whole number"),
        ("taskmanager.data.port", "50200-50100", "neither a port nor a range of ports such as 50100-50200"),
        ("taskmanager.data.port", "0-100", "neither a port nor a range"),
        ("taskmanager.data.port", "60000-70000", "neither a port nor a range"),
        ("taskmanager.data.port", "any", "neither a port nor a range"),
        ("pipeline.max-parallelism", "0", "below the least allowed value, 1"),
        ("pipeline.max-parallelism", "32769", "above the greatest allowed value, 32768"),
        ("pipeline.operator-chaining.enabled", "yes", "neither 'true' nor 'false'"),
        ("execution.checkpointing.mode", "MOSTLY_ONCE", "not one of EXACTLY_ONCE, AT_LEAST_ONCE"),
        ("restart-strategy.exponential-delay.jitter-factor", "1.01", "above the greatest allowed value, 1"),
        ("restart-strategy.exponential-delay.jitter-factor", "nan", "is not a number"),
        ("taskmanager.memory.process.size", "1 pb", "is not a memory size"),
        ("state.backend.type", "forst", "state.backend.type = forst is not available here"),
        ("execution.checkpointing.storage", "filesystem", "needs execution.checkpointing.dir"),
    ],
)
def test_a_bad_value_is_refused_with_its_key(key: str, text: str, told: str) -> None:
    message = problems_of({key: text})
    assert key in message
    assert told in message


@pytest.mark.parametrize(
    ("text", "ports"), [("0", range(1)), ("50100", range(50_100, 50_101)), (" 50100 - 50200 ", range(50_100, 50_201))]
)
def test_a_range_of_ports(text: str, ports: range) -> None:
    assert Configuration.from_strings({"taskmanager.data.port": text}).get(RuntimeOptions.DATA_PORT) == ports


def test_a_value_outside_the_bounds_may_be_allowed_by_name() -> None:
    assert Configuration.from_strings({"pipeline.max-parallelism": "-1"}).get(PipelineOptions.MAX_PARALLELISM) == -1


@pytest.mark.parametrize(
    "texts",
    [
        {
            "execution.checkpointing.unaligned.enabled": "true",
            "execution.checkpointing.max-concurrent-checkpoints": "2",
        },
        {"heartbeat.interval": "1 min"},
        {"parallelism.default": "8", "pipeline.max-parallelism": "4"},
        {"taskmanager.memory.managed.size": "2 gb", "taskmanager.memory.process.size": "1 gb"},
        {"restart-strategy.exponential-delay.initial-backoff": "2 min"},
        {"cluster.registration.initial-timeout": "31 s"},
        {"taskmanager.memory.network.max": "1 mb"},
    ],
)
def test_options_that_contradict_are_refused_with_both_keys(texts: dict[str, str]) -> None:
    message = problems_of(texts)
    assert all(key in message for key in texts)
    assert message.count(" = ") == 2


def test_all_problems_are_told_at_once_each_with_its_place() -> None:
    file = {
        "rest.port": Setting("many", "config.yaml line 3"),
        "execution.checkpointing.unaligned": Setting("true", "config.yaml line 4"),
    }
    line = {
        "execution.checkpointing.max-concurrent-checkpoints": Setting("2", "-D"),
        "paralelism.default": Setting("1", "-D"),
    }
    with pytest.raises(ConfigurationError) as caught:
        Configuration.from_layers([file, line])
    assert caught.value.message.splitlines() == [
        "bad configuration, 3 problems:",
        "  -D: unknown option 'paralelism.default'; did you mean 'parallelism.default'?",
        "  config.yaml line 3: rest.port: 'many' is not a whole number",
        "  execution.checkpointing.unaligned.enabled = true (config.yaml line 4) needs "
        "execution.checkpointing.max-concurrent-checkpoints to be 1, but "
        "execution.checkpointing.max-concurrent-checkpoints = 2 (-D)",
    ]


def test_at_least_once_has_no_unaligned_checkpoints_and_no_limit_of_them() -> None:
    texts = {
        "execution.checkpointing.unaligned.enabled": "true",
        "execution.checkpointing.max-concurrent-checkpoints": "2",
        "execution.checkpointing.mode": "AT_LEAST_ONCE",
    }
    assert Configuration.from_strings(texts).get(CheckpointingOptions.MAX_CONCURRENT) == 2


def test_a_check_is_left_out_when_one_of_its_options_is_unreadable() -> None:
    assert problems_of({"heartbeat.timeout": "soon", "heartbeat.interval": "2 min"}).startswith(
        "bad configuration: heartbeat.timeout: 'soon' is not a duration"
    )


def test_merged_takes_the_other_on_top_and_checks_again() -> None:
    cluster = Configuration.from_strings({"parallelism.default": "8", "rest.port": "1"})
    assert cluster.merged(Configuration.from_strings({"rest.port": "2"})).to_strings() == {
        "parallelism.default": "8",
        "rest.port": "2",
    }
    with pytest.raises(ConfigurationError, match="is above pipeline.max-parallelism"):
        cluster.merged(Configuration.from_strings({"pipeline.max-parallelism": "4"}))


def test_a_backlog_never_makes_checkpoints_more_frequent() -> None:
    prefix = "execution.checkpointing.interval"
    told = problems_of({prefix: "1 min", f"{prefix}-during-backlog": "10 s"})
    assert f"{prefix}-during-backlog = 10 s" in told
    assert "is below" in told
    assert "use 0" in told
    for fine in ("0", "1 min", "1 h"):
        Configuration.from_strings({prefix: "1 min", f"{prefix}-during-backlog": fine})
    Configuration.from_strings({f"{prefix}-during-backlog": "10 s"})


def test_a_configuration_is_a_value() -> None:
    one = Configuration.from_strings({"rest.port": "1"}, "-D")
    other = Configuration.from_strings({"rest.port": "1"}, "elsewhere")
    assert one == other == pickle.loads(pickle.dumps(one))
    assert len({one, other}) == 1
    assert one != Configuration()
    assert (list(one), len(one), "rest.port" in one) == (["rest.port"], 1, True)
