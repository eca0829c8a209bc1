"""Who leads and who waits, as those who look for the leader see it."""

from __future__ import annotations

import pytest
from obstore.store import MemoryStore

from tidegate.high_availability.object_store.bucket import Bucket
from tidegate.high_availability.object_store.codec import encode_ledger
from tidegate.high_availability.object_store.election import LEDGER, STANDBYS, BucketSettings
from tidegate.high_availability.object_store.ledger import LEADER, Ledger, released
from tidegate.high_availability.object_store.retrieval import BucketRetrieval
from tidegate.high_availability.port import encode_contact, encode_leader
from tidegate.model.leadership import Contact, Leader

HERE = Leader(3, Contact("here", "host:1", "host:2"))
LEDGER_OF_HERE = Ledger(3, 7, "holder", 5_000, {LEADER: encode_leader(HERE)})


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Bucket:
    found = Bucket(MemoryStore(), "ha", "s3://x/ha")
    monkeypatch.setattr(BucketSettings, "open", lambda settings: found)
    return found


def test_a_leader_is_trusted_until_its_lease_is_over(bucket: Bucket) -> None:
    clock = Clock()
    retrieval = BucketRetrieval(BucketSettings("s3://x/ha"), clock)
    assert retrieval.leader() is None
    assert retrieval.standbys() == []
    bucket.put(LEDGER, encode_ledger(LEDGER_OF_HERE, "0.1"))
    assert retrieval.leader() == HERE
    clock.now_s = 4.9
    assert retrieval.leader() == HERE
    clock.now_s = 5.1
    assert retrieval.leader() is None, "it has not been written for longer than the lease"
    assert BucketRetrieval(BucketSettings("s3://x/ha"), clock).leader() == HERE, "the first look cannot know"
    bucket.put(LEDGER, encode_ledger(released(LEDGER_OF_HERE), "0.1"))
    assert retrieval.leader() is None
    retrieval.close()


def test_a_standby_that_has_not_said_so_for_long_is_left_out(bucket: Bucket) -> None:
    bucket.put(f"{STANDBYS}/one", encode_contact(Contact("one", "host:1")))
    bucket.put(LEDGER, encode_ledger(LEDGER_OF_HERE, "0.1"))
    assert BucketRetrieval(BucketSettings("s3://x/ha")).standbys() == [Contact("one", "host:1")]
    modified = bucket.names(STANDBYS)["one"]
    while (found := bucket.read(LEDGER)) is not None and (found.modified - modified).total_seconds() <= 0.003:
        bucket.put(LEDGER, encode_ledger(LEDGER_OF_HERE, "0.1"))
    assert BucketRetrieval(BucketSettings("s3://x/ha", lease_ms=1)).standbys() == []
