"""PyFlink's own examples give the same results here when ``pyflink`` is replaced by ``tidegate`` in their text.

What Flink gives is recorded (``pyflink_examples.txt``); a slow test runs Flink, all of them in one JVM, and holds the record against it:

    python -m tests.e2e.test_pyflink_examples     records it anew

Records are compared as bags, since the order of parallel subtasks is free. The examples come from the installed package and are copied into the
test's directory only.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.waiting import wait_until
from tests.servers import flink_examples
from tests.servers.flink_environment import FlinkEnvironment, flink_environment
from tests.servers.kafka_broker import KafkaBroker

RECORDED = Path(__file__).with_name("pyflink_examples.txt")
PRINTING = ["basic_operations", "process_json_data", "state_access", "event_time_timer"]
WRITING = [
    "word_count",
    "windowing/tumbling_count_window",
    "windowing/tumbling_time_window",
    "windowing/sliding_time_window",
    "windowing/session_with_gap_window",
    "windowing/session_with_dynamic_gap_window",
]
_WORDS = ["hi", "hello", "hi", "hello", "hi", "hello", "hello"]
_ROWS = [f"+I[{number},{word}]" for number, word in zip([1, 2, 3, 4, 5, 6, 6], _WORDS, strict=True)]
_READS = ".set_starting_offsets(KafkaOffsetsInitializer.earliest())"
KAFKA = {
    "kafka_avro_format": ("test_avro_topic", _ROWS),
    "kafka_csv_format": ("test_csv_topic", _ROWS),
    "kafka_json_format": ("test_json_topic", _ROWS),
    "kafka_bytearray_format": (
        "test_bytearray_topic",
        [f'{{"id": {n}, "country": "{name}"}}' for n, name in enumerate(["USA", "Canada", "Germany"], 1)],
    ),
    "kafka_row_field_extractor_example": ("row-extractor-example", []),
}
REFUSED = {"connectors/elasticsearch": "(?i)elasticsearch", "connectors/pulsar": "(?i)pulsar"}
FLINK_LIMIT_S = 600
PRINT_LIMIT_S = 120
Outputs = dict[str, Counter[str]]
_PRINTED = re.compile(r"^(?:\d+> )?([(+].*)$")


@pytest.fixture(scope="module")
def expected() -> Outputs:
    """The records of every example, as Flink gave them."""
    found: Outputs = {}
    name = ""
    for line in RECORDED.read_text(encoding="utf-8").splitlines():
        if line.startswith("=== "):
            name = line[4:]
        else:
            found.setdefault(name, Counter())[line] += 1
    return found


def given_by_flink(flink: FlinkEnvironment, outputs: Path) -> Outputs:
    script = str(Path(flink_examples.__file__))
    examples = str(flink.examples() / "datastream")
    done = flink.run(script, examples, str(outputs), *PRINTING, *WRITING, limit_s=FLINK_LIMIT_S, cwd=outputs)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    printed: Outputs = {}
    name = ""
    for line in done.stdout.splitlines():
        if line.startswith("=== "):
            name = line[4:]
        elif name in PRINTING and (found := _PRINTED.match(line)):
            printed.setdefault(name, Counter())[found[1]] += 1
    return {**printed, **{name: lines_below(outputs / name) for name in WRITING}}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_record_is_what_flink_gives(flink: FlinkEnvironment, expected: Outputs, tmp_path: Path) -> None:
    assert given_by_flink(flink, tmp_path) == expected


def lines_below(directory: Path) -> Counter[str]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return Counter(line for path in files for line in path.read_text().splitlines())


def replaced(name: str, flink: FlinkEnvironment, directory: Path) -> Path:
    """The example with our imports."""
    text = (flink.examples() / "datastream" / f"{name}.py").read_text()
    job = directory / f"{Path(name).name}.py"
    job.write_text(re.sub(r"^(\s*)from pyflink\b", r"\1from tidegate", text, flags=re.M))
    return job


def run(job: Path, cluster: Cluster, *arguments: str) -> None:
    done = cluster.cli("run", "--jobmanager", cluster.address, str(job), *arguments, limit_s=120)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{cluster.logs()}"


@pytest.mark.parametrize("name", WRITING)
def test_what_an_example_writes(
    name: str, cluster: Cluster, flink: FlinkEnvironment, expected: Outputs, tmp_path: Path
) -> None:
    run(replaced(name, flink, tmp_path), cluster, "--output", str(tmp_path / "out"))
    assert lines_below(tmp_path / "out") == expected[name]
    assert expected[name]


@pytest.mark.parametrize("name", KAFKA)
def test_what_an_example_writes_to_kafka_and_reads_again(
    name: str, cluster: Cluster, flink: FlinkEnvironment, broker: KafkaBroker, tmp_path: Path
) -> None:
    """Its source ends here where the topic ends: in Flink it never does."""
    topic, records = KAFKA[name]
    broker.create_topic(topic)
    text = replaced(f"connectors/{name}", flink, tmp_path).read_text().replace("localhost:9092", broker.servers)
    assert text.count(_READS) == (0 if name == "kafka_row_field_extractor_example" else 1)
    job = tmp_path / "bounded_kafka.py"
    job.write_text(text.replace(_READS, f"{_READS}.set_bounded(KafkaOffsetsInitializer.latest())"))
    before = {process.name: process.log.stat().st_size for process in cluster.task_managers}
    run(job, cluster)

    def printed() -> Counter[str]:
        texts = [process.log.read_bytes()[before[process.name] :].decode() for process in cluster.task_managers]
        return Counter(line.partition("> ")[2] or line for text in texts for line in text.splitlines())

    wait_until(lambda: printed() >= Counter(records), PRINT_LIMIT_S, f"{name} printed {records}, so far {printed()}")


@pytest.mark.parametrize("name", REFUSED)
def test_an_example_of_what_is_not_available_says_so(
    name: str, cluster: Cluster, flink: FlinkEnvironment, tmp_path: Path
) -> None:
    job = replaced(name, flink, tmp_path)
    done = cluster.cli("run", "--jobmanager", cluster.address, str(job), limit_s=120)
    assert done.returncode != 0
    assert re.search(REFUSED[name], done.stderr), done.stderr


@pytest.mark.parametrize("name", PRINTING)
def test_what_an_example_prints(
    name: str, cluster: Cluster, flink: FlinkEnvironment, expected: Outputs, tmp_path: Path
) -> None:
    before = {process.name: process.log.stat().st_size for process in cluster.task_managers}

    def printed() -> Counter[str]:
        texts = [process.log.read_bytes()[before[process.name] :].decode() for process in cluster.task_managers]
        return Counter(found[1] for text in texts for line in text.splitlines() if (found := _PRINTED.match(line)))

    assert expected[name]
    run(replaced(name, flink, tmp_path), cluster)
    wait_until(
        lambda: printed() >= expected[name], PRINT_LIMIT_S, f"{name} printed {expected[name]}, so far {printed()}"
    )
    assert printed() == expected[name]


def test_the_endless_one_counts_its_words(cluster: Cluster, flink: FlinkEnvironment, tmp_path: Path) -> None:
    """``streaming_word_count`` reads random words: its counts go up by one, word by word, in Flink as here."""
    text = replaced("streaming_word_count", flink, tmp_path).read_text()
    assert "'rows-per-second', '5'" in text
    job = tmp_path / "bounded_words.py"
    job.write_text(text.replace("'rows-per-second', '5'", "'number-of-rows', '500'"))
    run(job, cluster, "--output", str(tmp_path / "out"))
    seen: dict[str, list[int]] = {}
    for line in lines_below(tmp_path / "out").elements():
        word, count = line.strip("()").split(",")
        seen.setdefault(word, []).append(int(count))
    assert sum(map(len, seen.values())) == 500
    assert all(sorted(counts) == list(range(1, len(counts) + 1)) for counts in seen.values())


def _record() -> None:
    with tempfile.TemporaryDirectory() as outputs:
        given = given_by_flink(flink_environment(), Path(outputs))
    parts = ["\n".join([f"=== {name}", *sorted(given[name].elements())]) for name in sorted(given)]
    RECORDED.write_text("\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _record()
