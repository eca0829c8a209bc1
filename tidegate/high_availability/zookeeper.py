"""High availability in Apache ZooKeeper, with kazoo: the lock, the session, and entries that a transaction changes together with a check of the lock.

Paths are Flink's, below ``high-availability.zookeeper.path.root`` and the name of the cluster:

    leader/latch/...__lock__<n>          of each JobManager that leads or waits, ephemeral; what it holds is a ``Contact``
    leader/dispatcher/connection_info    the leader's ``Leader``
    execution-plans/, jobs/, ...         entries

A term is the transaction id with which the leader's node in the latch was made: ZooKeeper numbers all changes, and the lock is given in the order in which
nodes were made. A change is a transaction whose first operation checks that this very node is there. So a leader whose session has expired changes
nothing, whatever it believes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Any

from tidegate.high_availability.port import (
    Deposed,
    Entries,
    Unavailable,
    decode_contact,
    decode_leader,
    encode_contact,
    encode_leader,
)
from tidegate.model.errors import ConfigurationError, ExternalError
from tidegate.model.leadership import Connected, Contact, ElectionEvent, Leader, LockAcquired, Lost, Suspended
from tidegate.model.options import HighAvailabilityOptions

try:
    from kazoo.client import KazooClient, KazooState
    from kazoo.exceptions import (
        KazooException,
        NoAuthError,
        NodeExistsError,
        NoNodeError,
        RolledBackError,
        SessionExpiredError,
    )
    from kazoo.handlers.threading import KazooTimeoutError
    from kazoo.retry import KazooRetry
    from kazoo.security import CREATOR_ALL_ACL
except ImportError as error:
    raise ConfigurationError(
        f"high-availability.type zookeeper needs kazoo: pip install 'tidegate[zookeeper]' ({error})"
    ) from error

_LATCH, _LEADER = "leader/latch", "leader/dispatcher/connection_info"
_ANSWER_S = 5.0
"""The timeout of one answer, in seconds; afterwards the call is repeated, which is harmless."""


@dataclass(frozen=True, slots=True)
class ZooKeeperSettings:
    """The settings of the driver. ``quorum``: ``host:port,...``; ``root``: of this cluster. Times are milliseconds. ``digest``: ``user:password`` by
    which a client authenticates. ``is_for_creator``: created nodes are accessible to this user alone."""

    quorum: str
    root: str
    execution_plans: str = "/execution-plans"
    session_timeout_ms: int = 5_000
    connection_timeout_ms: int = 15_000
    digest: str | None = field(default=None, repr=False)
    is_for_creator: bool = False

    def connect(self) -> KazooClient:
        """Creates a client, not yet started, that reconnects without end."""
        return KazooClient(
            hosts=self.quorum,
            timeout=self.session_timeout_ms / 1000,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=1.0),
            command_retry=KazooRetry(max_tries=0),
            auth_data=[] if self.digest is None else [("digest", self.digest)],
            default_acl=CREATOR_ALL_ACL if self.is_for_creator else None,
        )

    def start(self, client: KazooClient) -> None:
        """Starts a client. Raises ``Unavailable`` when no server answers within the connection timeout."""
        try:
            client.start(timeout=self.connection_timeout_ms / 1000)
        except (KazooTimeoutError, KazooException) as error:
            _disconnect(client)
            raise Unavailable(
                f"no ZooKeeper server at {self.quorum} answered within {self.connection_timeout_ms / 1000:g} s: {error}; "
                "see high-availability.zookeeper.quorum"
            ) from None

    def path(self, name: str) -> str:
        """Returns the path of an entry."""
        first, separator, rest = name.partition("/")
        if first == "execution-plans":
            return f"{self.root}{self.execution_plans}{separator}{rest}"
        return f"{self.root}/{name}"


class ZooKeeperElection:
    """The leader election of one JobManager in ZooKeeper."""

    def __init__(self, settings: ZooKeeperSettings) -> None:
        self._settings = settings
        self._client = settings.connect()
        self._contact = Contact("")
        self._tell: Callable[[ElectionEvent], None] = lambda event: None
        self._lock: Any = None
        self._waiting: threading.Thread | None = None
        self._held: str | None = None
        self._nodes: dict[int, str] = {}
        """The node in the latch of each term of this process."""

    @property
    def lease_ms(self) -> int:
        return self._settings.session_timeout_ms

    def seek(self, contact: Contact, tell: Callable[[ElectionEvent], None]) -> None:
        """Connects to ZooKeeper. Raises ``Unavailable`` when no server answers, and when the nodes of the cluster are accessible to another user only."""
        self._contact, self._tell = contact, tell
        self._client.add_listener(self._on_state)
        self._settings.start(self._client)
        latch = self._settings.path(_LATCH)
        with _answers(f"make and list {latch}"):  # the thread that waits in line could tell its failure to none
            self._client.ensure_path_async(latch).get(timeout=_ANSWER_S)
            self._client.get_children_async(latch).get(timeout=_ANSWER_S)

    def wait_for_turn(self, session: int) -> None:
        self.give_up()
        self._lock = self._client.Lock(self._settings.path(_LATCH), encode_contact(self._contact).decode("utf-8"))
        self._waiting = threading.Thread(target=self._wait, args=(self._lock,), name="election", daemon=True)
        self._waiting.start()

    def give_up(self) -> None:
        lock, self._lock = self._lock, None
        if lock is None:
            return
        lock.cancel()
        if self._waiting is not None:
            self._waiting.join(_ANSWER_S)
        if self._held is not None:
            with contextlib.suppress(KazooException, KazooTimeoutError):  # the session is over, and so is its node
                self._client.delete_async(self._held).get(timeout=_ANSWER_S)
            self._held = None

    def publish(self, term: int, contact: Contact) -> None:
        self.entries(term).put(_LEADER, encode_leader(Leader(term, contact)))

    def entries(self, term: int) -> ZooKeeperEntries:
        return ZooKeeperEntries(self._client, self._settings, self._nodes[term])

    def close(self) -> None:
        """Ends the session, and with it the lock."""
        if self._lock is not None:
            self._lock.cancel()
        _disconnect(self._client)

    def _on_state(self, state: str) -> None:
        """Reports a change of the connection. Called in kazoo's own thread, which must not block."""
        if state == KazooState.CONNECTED:
            self._tell(Connected(self._session()))
        elif state == KazooState.SUSPENDED:
            self._tell(Suspended("the connection to ZooKeeper is suspended"))
        else:
            self._tell(Lost("the session of this JobManager with ZooKeeper has ended"))

    def _session(self) -> int:
        known = self._client.client_id
        return int(known[0]) if known is not None else 0

    def _wait(self, lock: Any) -> None:
        """Waits for the lock and reports it. When the session changes meanwhile, the lock is taken again; its node has the session in which it was taken."""
        try:
            if not lock.acquire():
                return
            node = f"{lock.path}/{lock.node}"
            _, stat = self._client.get(node)
        except (KazooException, KazooTimeoutError):
            return  # the session is over; the next one waits anew
        self._nodes[stat.czxid] = self._held = node
        self._tell(LockAcquired(stat.ephemeralOwner, stat.czxid))


class ZooKeeperRetrieval:
    """Leader retrieval from ZooKeeper. Connects on first use."""

    def __init__(self, settings: ZooKeeperSettings) -> None:
        self._settings = settings
        self._client: KazooClient | None = None

    def leader(self) -> Leader | None:
        with _answers("read who leads"):
            nodes = self._line()
            if not nodes:
                return None
            try:
                content, _ = self._started().get(self._settings.path(_LEADER))
                _, stat = self._started().get(nodes[0])
            except NoNodeError:
                return None
        leader = decode_leader(content, self._settings.path(_LEADER))
        return leader if leader.term == stat.czxid else None

    def standbys(self) -> list[Contact]:
        waiting = []
        with _answers("read who stands by"):
            for node in self._line()[1:]:
                try:
                    content, _ = self._started().get(node)
                except NoNodeError:
                    continue
                waiting.append(decode_contact(content, node))
        return waiting

    def close(self) -> None:
        if self._client is not None:
            _disconnect(self._client)
            self._client = None

    def _line(self) -> list[str]:
        latch = self._settings.path(_LATCH)
        try:
            names = self._started().get_children(latch)
        except NoNodeError:
            return []
        return [f"{latch}/{name}" for name in sorted(names, key=lambda name: name.rpartition("__")[2])]

    def _started(self) -> KazooClient:
        if self._client is None:
            client = self._settings.connect()
            self._settings.start(client)
            self._client = client
        return self._client


class ZooKeeperEntries(Entries):
    """Entries in ZooKeeper. Changes succeed only while ``lock`` exists, the node of this leader's session."""

    excludes_others = False

    def __init__(self, client: KazooClient, settings: ZooKeeperSettings, lock: str) -> None:
        self._client = client
        self._settings = settings
        self._lock = lock

    def get(self, name: str) -> bytes | None:
        path = self._settings.path(name)
        with _answers(f"read {path}"):
            try:
                content, _ = self._client.get_async(path).get(timeout=_ANSWER_S)
            except NoNodeError:
                return None
        return bytes(content)

    def names(self, below: str) -> list[str]:
        path = self._settings.path(below)
        with _answers(f"list {path}"):
            try:
                return sorted(self._client.get_children_async(path).get(timeout=_ANSWER_S))
            except NoNodeError:
                return []

    def create(self, name: str, value: bytes) -> bool:
        path = self._settings.path(name)
        with _answers(f"make {path}"):
            self._make_parent(path)
            outcome = self._change(lambda change: change.create(path, value))
        if outcome is None:
            return True
        if isinstance(outcome, NodeExistsError):
            return self.get(name) == value
        raise _failure(f"make {path}", outcome)

    def put(self, name: str, value: bytes) -> None:
        path = self._settings.path(name)
        with _answers(f"write {path}"):
            outcome = self._change(lambda change: change.set_data(path, value))
            if isinstance(outcome, NoNodeError):
                self._make_parent(path)
                outcome = self._change(lambda change: change.create(path, value))
        if outcome is not None:
            raise _failure(f"write {path}", outcome)

    def delete(self, name: str) -> None:
        path = self._settings.path(name)
        with _answers(f"remove {path}"):
            for node in list(self._below(path)):
                outcome = self._change(methodcaller("delete", node))
                if outcome is not None and not isinstance(outcome, NoNodeError):
                    raise _failure(f"remove {node}", outcome)

    def check_lead(self) -> None:
        with _answers("say who leads"):
            outcome = self._change(lambda _: None)
        if outcome is not None:
            raise _failure("say who leads", outcome)

    def _below(self, path: str) -> Iterator[str]:
        """Yields a node and those below it, deepest first."""
        try:
            children = self._client.get_children_async(path).get(timeout=_ANSWER_S)
        except NoNodeError:
            return
        for child in children:
            yield from self._below(f"{path}/{child}")
        yield path

    def _make_parent(self, path: str) -> None:
        """Creates the parent of a node, without a check of the lead: an empty node has no meaning."""
        self._client.ensure_path_async(path.rpartition("/")[0]).get(timeout=_ANSWER_S)

    def _change(self, add: Callable[[Any], None]) -> Exception | None:
        """Changes nodes in a transaction. Returns the error when it failed for another reason than the end of the lead. Raises ``Deposed``."""
        change = self._client.transaction()
        change.check(self._lock, 0)
        add(change)
        results: Sequence[object] = change.commit_async().get(timeout=_ANSWER_S)
        if isinstance(results[0], NoNodeError):
            raise Deposed(f"another JobManager leads: the node {self._lock} of this one is gone from ZooKeeper")
        failed = [result for result in results if isinstance(result, Exception)]
        causes = [error for error in failed if not isinstance(error, RolledBackError)]
        return causes[0] if causes else failed[0] if failed else None


def _disconnect(client: KazooClient) -> None:
    with contextlib.suppress(KazooException, KazooTimeoutError):
        client.stop()
        client.close()


@contextmanager
def _answers(what: str) -> Iterator[None]:
    """Converts errors of ZooKeeper; after a missing answer, the request may have been executed."""
    try:
        yield
    except SessionExpiredError:
        raise Deposed("the session of this JobManager with ZooKeeper has ended") from None
    except NoAuthError as error:
        raise _failure(what, error) from None
    except (KazooTimeoutError, KazooException) as error:
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        raise Unavailable(f"ZooKeeper was asked to {what}, and did not answer ({reason})") from None


def _failure(what: str, error: Exception) -> ExternalError:
    if isinstance(error, NoAuthError):
        return Unavailable(
            f"ZooKeeper does not let this user {what}: another one made the node for itself; give that one's name and password by "
            f"{HighAvailabilityOptions.ZOOKEEPER_AUTHORIZATION.key}"
        )
    return Unavailable(f"ZooKeeper could not {what}: {type(error).__name__} {error}")
