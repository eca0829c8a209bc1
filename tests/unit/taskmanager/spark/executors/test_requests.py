"""What the log of Spark's JVM says of executors, as Spark 4.3 writes it."""

from __future__ import annotations

from tidegate.taskmanager.spark.executors.requests import ended_in, why_stopped

LOG = """\
2026-11-26 18:42:51,101 INFO  StandaloneAppClient$ClientEndpoint - Executor added: app-20261126184250-0000/0 on worker-1 (127.0.0.1:1) with 6 core(s)
2026-11-26 18:42:51,102 INFO  StandaloneAppClient$ClientEndpoint - Executor updated: app-20261126184250-0000/0 is now RUNNING
2026-11-26 18:42:53,600 INFO  StandaloneAppClient$ClientEndpoint - Executor updated: app-20261126184250-0000/0 is now EXITED (Command exited with code 1)
2026-11-26 18:42:53,700 INFO  StandaloneAppClient$ClientEndpoint - Executor updated: app-20261126184250-0000/1 is now LOST
2026-11-26 18:42:53,800 INFO  StandaloneAppClient$ClientEndpoint - Executor updated: app-20261126184250-0000/2 is now KILLED
2026-11-26 18:42:59,000 ERROR StandaloneSchedulerBackend - Application has been killed. Reason: Master removed our application: FAILED
"""


def test_executors_that_ended_are_told_with_the_reason_but_not_those_that_were_given_back() -> None:
    assert ended_in(LOG) == {"0": "Command exited with code 1", "1": "LOST"}
    assert ended_in("") == {}


def test_why_a_context_has_stopped() -> None:
    said = why_stopped("spark://a:7077", LOG)
    assert said.startswith("spark://a:7077 has ended the Spark application: Master removed our application: FAILED.")
    assert why_stopped("yarn", "") == "the Spark application at yarn has ended"
