"""All data connections of one subtask: the server of its outputs, the clients of its inputs, and their I/O thread.

    endpoint = DataEndpoint(attempt=..., token=..., listen="unix:/dir" | "host", wakeup=fn)
    partition = endpoint.add_output(...)  ;  gate = endpoint.add_inputs(...)      before start
    endpoint.start() -> address  ;  endpoint.connect(producer) as they come up  ;  endpoint.close()

``wakeup`` is called from the I/O thread whenever an input has data, an output has room or was drained, or a connection was made or broke.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tidegate.model.channel_events import UserEvent
from tidegate.model.deployment import InputDeployment, OutputDeployment, ProducerAddress
from tidegate.model.errors import InternalError, UnknownAttempt
from tidegate.model.ids import AttemptId
from tidegate.model.program import OutputSpec
from tidegate.taskmanager.exchange.data_client import DataClient
from tidegate.taskmanager.exchange.data_server import DataServer, OnTaskEvent, ServerCounts, nobody_listens
from tidegate.taskmanager.exchange.exchange_settings import ExchangeSettings
from tidegate.taskmanager.exchange.input_gate import ChannelInputGate
from tidegate.taskmanager.exchange.io_loop import IoLoop, OpenLoop
from tidegate.taskmanager.exchange.result_partition import PipelinedResultPartition
from tidegate.taskmanager.exchange.subpartition import Subpartition
from tidegate.taskmanager.machines.credit import GrantCredit
from tidegate.wire.channel_messages import Hello, encode_event


class DataEndpoint:
    """The data connections of one subtask. Used from its thread."""

    def __init__(
        self,
        *,
        attempt: AttemptId,
        token: str,
        listen: str,
        wakeup: Callable[[], None],
        settings: ExchangeSettings | None = None,
        open_loop: OpenLoop = IoLoop,
        on_task_event: OnTaskEvent = nobody_listens,
    ) -> None:
        self._attempt = attempt
        self._token = token
        self._listen = listen
        self._wakeup = wakeup
        self._settings = settings or ExchangeSettings()
        self._loop = open_loop(f"exchange-{attempt.subtask}", self._settings.clock, self._on_crash)
        self._subpartitions: dict[tuple[int, int], Subpartition] = {}
        self._server = DataServer(self._loop, self._settings, attempt, token, self._subpartitions, on_task_event)
        self._gate = ChannelInputGate((), self._settings, wakeup, self._send_credit)
        self._inputs: list[tuple[int, AttemptId]] = []
        self._channels_from: dict[AttemptId, list[int]] = {}
        self._input_indices: list[int] = []
        """The index of the head's input for each channel."""
        self._clients: dict[int, DataClient] = {}
        self._connected = 0
        self._address = ""

    @property
    def counts(self) -> ServerCounts:
        return self._server.counts

    def add_output(self, output: OutputDeployment, spec: OutputSpec) -> PipelinedResultPartition:
        made = []
        for consumer in output.consumers:
            subpartition = Subpartition(self._settings.queue, self._settings.clock, self._wakeup)
            assert (output.edge_id, consumer) not in self._subpartitions, f"edge {output.edge_id} is added once"
            self._subpartitions[output.edge_id, consumer] = subpartition
            made.append(subpartition)
        return PipelinedResultPartition(output, spec, self._attempt.subtask, made, self._settings)

    def add_inputs(self, inputs: tuple[InputDeployment, ...]) -> ChannelInputGate:
        assert not self._inputs, "the inputs are added once"
        names: list[tuple[int, str]] = []
        for index, deployment in enumerate(inputs):
            for producer in deployment.producers:
                names.append((index, f"channel {len(names)} from producer {producer} (edge {deployment.edge_id})"))
                self._channels_from.setdefault(producer, []).append(len(self._inputs))
                self._inputs.append((deployment.edge_id, producer))
                self._input_indices.append(deployment.input_index)
        self._gate = ChannelInputGate(names, self._settings, self._wakeup, self._send_credit)
        return self._gate

    def start(self) -> str:
        """Begins to listen; returns the address for consumers, empty when there are no outputs. Raises ``ConfigurationError``."""
        if self._subpartitions:
            host = self._settings.advertised_host
            listener, self._address = self._loop.listen(self._listen, str(self._attempt), host)
            self._loop.call_soon(lambda: self._server.listen_on(listener))
        self._loop.start()
        return self._address

    def connect(self, producer: ProducerAddress) -> None:
        """Opens all channels to a producer, once. Errors are raised by the gate's ``poll``."""
        channels = self._channels_from.get(producer.attempt)
        if channels is None:
            raise UnknownAttempt(
                f"{producer.attempt} at {producer.address} was named as a producer of {self._attempt}, which reads nothing from it"
            )
        for channel in channels:
            if channel in self._clients:
                continue
            edge_id = self._inputs[channel][0]
            hello = Hello(
                token=self._token,
                job_id=self._attempt.job_id,
                producer=str(producer.attempt),
                consumer=str(self._attempt),
                edge_id=edge_id,
                consumer_index=self._attempt.subtask,
            )
            client = DataClient(self._loop, self._settings, self._gate, channel, producer, hello, self._on_connected)
            self._clients[channel] = client
            self._loop.call_soon(client.open)

    def all_connected(self) -> bool:
        """Tells whether every channel of the gate was accepted by its producer. Raises as ``check`` does."""
        self.check()
        return self._connected == len(self._inputs)

    def check(self) -> None:
        """Raises the error of an input or the I/O thread, for a subtask that does not poll now or has no inputs."""
        self._gate.check()

    def lose(self, reason: str) -> None:
        """Notifies the consumers that the attempt failed and that what they have not received is lost. ``close`` follows."""
        self._loop.call_soon(lambda: self._server.lose(reason))

    def send_task_event(self, event: UserEvent, input_index: int | None) -> None:
        """Sends an event upstream, once to each producer of this input (``None``: of all). It is lost where a connection is closed or breaks."""
        payload = encode_event(event)
        for channel, index in enumerate(self._input_indices):
            if input_index in (None, index) and channel in self._clients:
                self._loop.call_soon(partial(self._clients[channel].send_event, payload))

    def close(self) -> None:
        """Ends the I/O thread and all connections. What consumers have not received is lost."""
        self._loop.stop()
        self._gate.close()
        self._loop.remove(self._address)

    def _send_credit(self, channel: int, credit: GrantCredit) -> None:
        client = self._clients[channel]
        self._loop.call_soon(lambda: client.grant(credit))

    def _on_connected(self) -> None:
        self._connected += 1
        self._wakeup()

    def _on_crash(self, error: Exception) -> None:
        self._gate.on_failure(InternalError(f"the exchange of {self._attempt} broke: {type(error).__name__}: {error}"))
