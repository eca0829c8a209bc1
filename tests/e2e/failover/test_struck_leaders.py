"""Leaders that three ZooKeeper servers elect are struck at aimed points: the next one goes on, and what readers see is exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.failover.cluster import FailoverCluster
from tests.e2e.failover.rounds import JOB_LIMIT_S, Feeding, Rounds
from tests.e2e.failover.strikes import DURING_CHECKPOINTS, DURING_REQUESTS, STOP, path_in, stopping
from tests.e2e.waiting import wait_until
from tests.servers.kafka_broker import KafkaBroker


@pytest.mark.timeout(600, method="signal")
def test_both_jobs_are_exact_although_the_leader_is_killed_and_stopped_around_the_commit(
    struck: FailoverCluster, broker: KafkaBroker, tmp_path: Path
) -> None:
    """Killed before the pointer; killed after it, when no confirm has left; stopped before the pointer for longer than its session, after which it goes on
    with its write, and is refused. No subtask is restarted."""
    rounds = Rounds(struck, broker, tmp_path, "struck")
    with Feeding(rounds.feeder):
        rounds.ensure_jobs()
        before = rounds.attempts()
        for door in ("before-pointer", "after-pointer"):
            rounds.ensure_jobs()
            struck.at_door(door, struck.kill_leader)
            print(f"killed {door}: the jobs go on after {rounds.next_leader():.1f} s")
            struck.add_standby()
            assert rounds.attempts() == before, "nothing was restarted"
        rounds.ensure_jobs()
        stopped = []
        struck.at_door("before-pointer", lambda: stopped.append(struck.stop_leader()))
        print(f"stopped before the pointer: the jobs go on after {rounds.next_leader():.1f} s")
        struck.resume(stopped[0])
        rounds.ensure_jobs()
        assert rounds.attempts() == before
    rounds.wait_all_read()
    rounds.end()


@pytest.mark.timeout(900, method="signal")
def test_a_leader_that_was_stopped_in_the_middle_of_anything_is_refused_and_the_next_one_finishes_it(
    struck: FailoverCluster, broker: KafkaBroker, tmp_path: Path
) -> None:
    """Longer than its session each time: after the pointer, between confirms, while a job is submitted or deployed, during a savepoint and a stop.
    The commands that wait go on with the next leader, and what they asked for is done once."""
    rounds = Rounds(struck, broker, tmp_path, "stopped")
    with stopping(struck, rounds, tmp_path) as stopped:
        with Feeding(rounds.feeder):
            rounds.ensure_jobs()
            before = rounds.attempts()
            for point in (*DURING_CHECKPOINTS[1:], *DURING_REQUESTS):
                stopped.stop_at(point)
                stopped.resume()
                rounds.ensure_jobs()
                assert rounds.attempts() == before, f"{point.name}: nothing was restarted"
            stopped.stop_at(STOP)
            [said] = stopped.resume()
            assert rounds.has_ended(rounds.kafka_job)
            rounds.start_kafka_job(restore=path_in(said))
        rounds.wait_all_read()
        rounds.end()


@pytest.mark.timeout(600, method="signal")
def test_a_job_whose_leader_is_killed_before_it_has_stored_the_result_does_not_write_its_output_again(
    struck: FailoverCluster, broker: KafkaBroker, tmp_path: Path
) -> None:
    """The next leader goes on from the last checkpoint, and finds that nothing is left to do. No other one is in progress when the job ends, so that the
    checkpoints are removed at once."""
    rounds = Rounds(struck, broker, tmp_path, "ended")
    rounds.start_file_job(seconds=3, interval=60_000)
    struck.at_door("before-result", struck.kill_leader)
    struck.wait_led()
    rounds.progresses(rounds.file_job)
    wait_until(lambda: rounds.has_ended(rounds.file_job), JOB_LIMIT_S, "the job has ended")
    rounds.files[0].assert_exact()
