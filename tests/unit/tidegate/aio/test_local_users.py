"""The user of a connection over loopback is read from the kernel's tables, never guessed."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidegate.aio.local_users import LocalUsers, owners_of

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
SERVER = ("127.0.0.1", 8081)
needs_tables = pytest.mark.skipif(not LocalUsers.can_tell(), reason="the kernel of this system has no /proc/net/tcp")


def row(local: str, remote: str, state: str = "01", user: int = 1000, inode: int = 77) -> str:
    return f"   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000 {user:5}        0 {inode} 2 0000 20 4 30 10 -1\n"


def test_the_table_of_ipv4_is_read() -> None:
    table = HEAD + row("0100007F:A001", "0100007F:1F91", user=1234) + row("0100007F:1F91", "0100007F:A001", user=5)
    assert owners_of([table], 8081) == {(("127.0.0.1", 0xA001), SERVER): 1234}


def test_sockets_of_ipv6_count_under_the_address_that_the_server_sees() -> None:
    mapped = "0000000000000000FFFF00000100007F"
    own = "00000000000000000000000001000000"
    table = HEAD + row(f"{mapped}:A001", f"{mapped}:1F91", user=7) + row(f"{own}:A002", f"{own}:1F91", user=8)
    assert owners_of([HEAD, table], 8081) == {
        (("127.0.0.1", 0xA001), SERVER): 7,
        (("::1", 0xA002), ("::1", 8081)): 8,
    }


@pytest.mark.parametrize(("state", "inode"), [("06", 0), ("05", 0), ("01", 0), ("02", 77), ("0A", 77)])
def test_a_socket_that_no_process_has_is_nobodys_though_the_kernel_shows_root(state: str, inode: int) -> None:
    assert owners_of([HEAD + row("0100007F:A001", "0100007F:1F91", state, 0, inode)], 8081) == {}


def test_a_connection_from_the_same_port_to_another_address_proves_nothing() -> None:
    owners = owners_of([HEAD + row("0100007F:A001", "0200007F:1F91", user=0)], 8081)
    assert (("127.0.0.1", 0xA001), SERVER) not in owners


@contextmanager
def connected(host: str) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends: of the client, of the server."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.create_server((host, 0), family=family) as server,
        socket.create_connection(server.getsockname()[:2]) as client,
        server.accept()[0] as accepted,
    ):
        yield client, accepted


async def owner(accepted: socket.socket, users: LocalUsers) -> int | None:
    return await users.of(accepted.getpeername()[:2], accepted.getsockname()[:2])


@needs_tables
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_the_kernel_tells_our_own_connection(host: str) -> None:
    with connected(host) as (_, accepted):
        assert await owner(accepted, LocalUsers()) == os.geteuid()


@needs_tables
async def test_a_client_that_has_closed_is_nobody() -> None:
    with connected("127.0.0.1") as (client, accepted):
        client.close()
        assert await owner(accepted, LocalUsers()) is None


class Counted(LocalUsers):
    def __init__(self, table: Path) -> None:
        super().__init__([table])
        self.readings = 0

    def _read(self, port: int) -> dict[tuple[tuple[str, int], tuple[str, int]], int]:
        self.readings += 1
        return super()._read(port)


async def test_who_asks_at_once_shares_a_reading_that_begins_afterwards(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    table.write_text(HEAD + row("0100007F:A001", "0100007F:1F91"))
    users = Counted(table)
    assert await asyncio.gather(*[users.of(("127.0.0.1", 0xA001), SERVER) for _ in range(50)]) == [1000] * 50
    assert users.readings == 1
    table.write_text(HEAD + row("0100007F:A002", "0100007F:1F91"))
    assert await users.of(("127.0.0.1", 0xA001), SERVER) is None
    assert await users.of(("127.0.0.1", 0xA002), SERVER) == 1000


async def test_tables_that_cannot_be_read_are_an_error_for_all_who_ask_and_the_next_try_again(tmp_path: Path) -> None:
    (tmp_path / "tcp").mkdir()
    users = LocalUsers([tmp_path / "tcp"])
    for _ in range(2):
        with pytest.raises(OSError, match="directory"):
            await users.of(("127.0.0.1", 1), SERVER)
