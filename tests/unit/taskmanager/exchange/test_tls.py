"""Data connections by TLS: what holds without it holds with it, and who has no certificate of the cluster gets no word."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.certificates import issue, make_authority
from tests.unit.taskmanager.exchange.harness import Net, rows
from tidegate.model.channel_events import Barrier, EndOfData, EndOfPartition
from tidegate.model.checkpoint import CheckpointOptions
from tidegate.model.errors import SubtaskLost
from tidegate.records.batch import ArrowBatch
from tidegate.security.handshakes import parse_pins
from tidegate.security.keystores import Credentials, fingerprint_of, pem_of
from tidegate.security.sockets import IDENTITY, TRUSTED, TlsFiles
from tidegate.taskmanager.exchange.exchange_settings import ExchangeSettings
from tidegate.taskmanager.exchange.io_loop import IoLoop

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
BARRIER = Barrier(1, 2, CheckpointOptions("file:///c"))
LARGE = 3_000_000

AUTHORITY, STRANGER = make_authority(NOW, DAY), make_authority(NOW, DAY)


def files(
    directory: Path, authority: Credentials = AUTHORITY, trusted: Credentials = AUTHORITY, pins: str = ""
) -> TlsFiles:
    directory.mkdir()
    own = issue(authority, [], NOW, DAY)
    (directory / IDENTITY).write_bytes(own.key_pem() + own.chain_pem())
    (directory / TRUSTED).write_bytes(pem_of(trusted.chain))
    return TlsFiles(directory, parse_pins(pins))


def net_of(directory: Path, tls: TlsFiles | None) -> Net:
    net = Net(directory, ExchangeSettings(connect_timeout_ms=5_000), listen="127.0.0.1")
    net.open_loop = partial(IoLoop, tls=tls)
    return net


def test_batches_of_any_size_and_events_keep_their_order_to_the_end(tmp_path: Path) -> None:
    net = net_of(tmp_path, files(tmp_path / "tls"))
    partition, gate = net.pair()
    numbers = np.arange(LARGE, dtype=np.int64)
    partition.emit(ArrowBatch(pa.record_batch({"a": numbers})))
    partition.broadcast(BARRIER)
    partition.broadcast(EndOfData())
    partition.broadcast(EndOfPartition())
    arrived = 0
    while arrived < LARGE:
        item = net.next(gate)[1]
        assert isinstance(item, ArrowBatch)
        column = item.data.column("a").to_numpy()
        np.testing.assert_array_equal(column, numbers[arrived : arrived + len(column)])
        arrived += len(column)
    assert [net.next_event(gate) for _ in range(3)] == [BARRIER, EndOfData(), EndOfPartition()]
    net.wait_for(partition.is_drained, "the end to be received")
    assert gate.poll() is None
    net.close()


Make = Callable[[Path], TlsFiles | None]
CLOSED = "the producer closed it|reset by peer"
REFUSED = "it does not have the authority of our certificate|refuses our certificate|refused our certificate"
UNKNOWN = "its certificate is of an authority that is not in the truststore"


@pytest.mark.parametrize(
    ("producer", "consumer", "said", "logged"),
    [
        (files, lambda at: files(at, authority=STRANGER), REFUSED, UNKNOWN),
        (lambda at: files(at, authority=STRANGER), files, UNKNOWN, "it does not have the authority of our certificate"),
        (files, lambda _: None, CLOSED, "it speaks no TLS"),
        (
            lambda at: files(at, pins=fingerprint_of(STRANGER.certificate)),
            files,
            f"{CLOSED}|{REFUSED}",
            "not one of those that are pinned",
        ),
        (
            files,
            lambda at: files(at, pins=fingerprint_of(STRANGER.certificate)),
            "not one of those that are pinned",
            "",
        ),
    ],
    ids=["strange consumer", "strange producer", "plain consumer", "consumer not pinned", "producer not pinned"],
)
def test_who_is_not_believed_is_told_why_and_both_ends_say_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, producer: Make, consumer: Make, said: str, logged: str
) -> None:
    here, there = net_of(tmp_path, producer(tmp_path / "producer")), net_of(tmp_path, consumer(tmp_path / "consumer"))
    partition, address = here.producer(0, 1)
    partition.emit(rows(1))
    gate = there.consumer(0, [address])
    with pytest.raises(SubtaskLost, match=said):
        there.wait_for(gate.poll, "the refusal")
    here.wait_for(lambda: here.endpoints[0].counts.refused == 1, "the refusal at the other end")
    assert logged in caplog.text
    there.close()
    here.close()


def test_a_producer_without_tls_is_lost(tmp_path: Path) -> None:
    """It closes the connection, since it takes the handshake for a damaged frame."""
    here, there = net_of(tmp_path, None), net_of(tmp_path, files(tmp_path / "tls"))
    _, address = here.producer(0, 1)
    gate = there.consumer(0, [address])
    with pytest.raises(SubtaskLost, match="it closed the connection during the handshake: it speaks no TLS"):
        there.wait_for(gate.poll, "the failure")
    there.close()
    here.close()


def test_a_peer_learns_no_token_before_it_has_proven_itself(tmp_path: Path) -> None:
    """A stranger's server reads what the consumer sends: the beginning of a handshake, and an alert."""
    tls = files(tmp_path / "tls")
    strange = files(tmp_path / "strange", authority=STRANGER)
    with socket.create_server(("127.0.0.1", 0)) as plain, strange.listener(plain) as listener:
        net = net_of(tmp_path, tls)
        _, address = net_of(tmp_path, None).producer(0, 1)
        net.consumer(0, [type(address)(address.attempt, f"127.0.0.1:{listener.getsockname()[1]}")])
        accepted, _ = listener.accept()
        accepted.settimeout(20)
        with accepted, pytest.raises(ssl.SSLError):
            accepted.recv(1 << 16)
        net.close()
