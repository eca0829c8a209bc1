"""Word count as a stream: each word of each line, and how often it has come so far, at once. Lines come from a socket or from a Kafka topic.

    nc -lk 9999                                                             in one terminal: type lines
    python examples/streaming_word_count.py --socket localhost:9999         in another one: counts, until nc ends

    python examples/servers/run.py kafka                                    (needs `pip install "tidegate[kafka]"`)
    python examples/streaming_word_count.py --kafka localhost:9092 --topic lines

After a failure, counts go on from the last checkpoint. A topic is read again from there, so each line counts once. A socket cannot repeat a
line: what was read since that checkpoint is lost, as with Flink's `socketTextStream`.

The socket is read by a `Source` of this file's own: docs/guide/own_source.md explains its parts.
"""

from __future__ import annotations

import argparse
import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidegate.common import SimpleStringSchema, TypeInformation, Types, WatermarkStrategy
from tidegate.connectors.source import (
    Boundedness,
    InputStatus,
    ReaderOutput,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from tidegate.datastream import DataStream, StreamExecutionEnvironment
from tidegate.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaSource

WORD = re.compile(r"[\w']+")
CONNECT_TIMEOUT_S = 5
"""Nothing else of the subtask goes on meanwhile."""
READ_BYTES = 65_536
"""More than a person types, and few enough that a checkpoint does not wait for them."""


@dataclass(frozen=True)
class Server(SourceSplit):
    """Whom one reader connects to. There is no position in it: a socket cannot be read again."""

    host: str
    port: int

    def split_id(self) -> str:
        return f"{self.host}:{self.port}"


class SocketLines(Source[Server, bool]):
    """The lines that a server sends, until it closes the connection. One subtask reads, whatever the parallelism."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def get_boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, enum_context: SplitEnumeratorContext[Server]) -> SplitEnumerator[Server, bool]:
        return OneServer(enum_context, self._server, is_assigned=False)

    def restore_enumerator(
        self, enum_context: SplitEnumeratorContext[Server], checkpoint: bool
    ) -> SplitEnumerator[Server, bool]:
        return OneServer(enum_context, self._server, checkpoint)

    def create_reader(self, reader_context: SourceReaderContext) -> SourceReader[Server]:
        return LineReader(reader_context)

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()


class OneServer(SplitEnumerator[Server, bool]):
    """Gives the server to the first reader that asks."""

    def __init__(self, context: SplitEnumeratorContext[Server], server: Server, is_assigned: bool) -> None:
        self._context = context
        self._server = server
        self._is_assigned = is_assigned

    def handle_split_request(self, subtask_id: int, requester_hostname: str | None) -> None:
        if not self._is_assigned:
            self._is_assigned = True
            self._context.assign_split(self._server, subtask_id)
        self._context.signal_no_more_splits(subtask_id)

    def add_splits_back(self, splits: Sequence[Server], subtask_id: int) -> None:
        self._is_assigned = self._is_assigned and not splits

    def add_reader(self, subtask_id: int) -> None:
        """It asks by itself."""

    def snapshot_state(self, checkpoint_id: int) -> bool:
        return self._is_assigned


class LineReader(SourceReader[Server]):
    """Reads what is there without waiting, so that checkpoints are never held up by a silent server."""

    def __init__(self, context: SourceReaderContext) -> None:
        self._context = context
        self._server: Server | None = None
        self._connection: socket.socket | None = None
        self._rest = b""
        self._is_over = False

    def start(self) -> None:
        if self._server is None:
            self._context.send_split_request()

    def add_splits(self, splits: Sequence[Server]) -> None:
        (self._server,) = splits
        try:
            self._connection = socket.create_connection((self._server.host, self._server.port), CONNECT_TIMEOUT_S)
        except OSError as error:
            raise ConnectionError(f"no server for lines at {self._server.split_id()} ({error}): start one") from error
        self._connection.setblocking(False)

    def notify_no_more_splits(self) -> None:
        self._is_over = self._server is None

    def poll_next(self, output: ReaderOutput) -> InputStatus:
        if self._connection is None:
            return InputStatus.END_OF_INPUT if self._is_over else InputStatus.NOTHING_AVAILABLE
        try:
            read = self._connection.recv(READ_BYTES)
        except BlockingIOError:
            return InputStatus.NOTHING_AVAILABLE
        *lines, self._rest = (self._rest + read).split(b"\n")
        if not read and self._rest:
            lines.append(self._rest)  # the last line, which nothing ends
        for line in lines:
            output.collect(line.decode(errors="replace").removesuffix("\r"))
        if read:
            return InputStatus.MORE_AVAILABLE
        self.close()
        self._server, self._connection, self._is_over = None, None, True
        return InputStatus.END_OF_INPUT

    def snapshot_state(self, checkpoint_id: int) -> Sequence[Server]:
        return [] if self._server is None else [self._server]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def words(line: str) -> Iterator[str]:
    yield from WORD.findall(line.lower())


def add_counts(left: tuple[str, int], right: tuple[str, int]) -> tuple[str, int]:
    return left[0], left[1] + right[1]


def server_of(text: str) -> Server:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not like localhost:9999")
    return Server(host, int(port))


def lines_of(env: StreamExecutionEnvironment, arguments: argparse.Namespace) -> DataStream:
    if arguments.socket is not None:
        return env.from_source(SocketLines(arguments.socket), WatermarkStrategy.no_watermarks(), "socket")
    topic = (
        KafkaSource.builder()
        .set_bootstrap_servers(arguments.kafka)
        .set_topics(arguments.topic)
        .set_group_id("streaming-word-count")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
    )
    if arguments.bounded:
        topic = topic.set_bounded(KafkaOffsetsInitializer.latest())
    return env.from_source(topic.build(), WatermarkStrategy.no_watermarks(), "topic")


def main() -> None:
    parser = argparse.ArgumentParser(description="count words as they come")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--socket", type=server_of, metavar="HOST:PORT", help="a server that sends lines")
    source.add_argument("--kafka", metavar="HOST:PORT", help="a broker")
    parser.add_argument("--topic", default="lines", help="of the broker (default: lines)")
    parser.add_argument("--bounded", action="store_true", help="end with what is in the topic now")
    arguments = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    (
        lines_of(env, arguments)
        .uid("lines")
        .flat_map(words, Types.STRING())
        .map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.LONG()]))
        .name("pair")
        .key_by(lambda pair: pair[0], Types.STRING())
        .reduce(add_counts)
        .name("count")
        .uid("count")
        .print()
    )
    env.execute("streaming word count")


if __name__ == "__main__":
    main()
