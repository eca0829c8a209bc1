"""A program asks for the warm cluster: silent where none is wanted or kept, one line where it is not used, and never an error."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tidegate.cli.embedded.warm.borrowed import borrow
from tidegate.cli.embedded.warm.facts import Facts, Standing, Use, facts_now
from tidegate.cli.embedded.warm.meeting import SOCKET, Channel, listen, warm_directory
from tidegate.model.values import JsonObject


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    warm_directory(tmp_path).mkdir(mode=0o700, parents=True)
    return tmp_path


class FakeKeeper:
    """Says what it is to one program, answers its requests as they are given, and remembers them."""

    def __init__(self, home: Path, standing: Standing, *answers: JsonObject) -> None:
        self.requests: list[JsonObject] = []
        self._pipes = os.pipe(), os.pipe()
        for read, _ in self._pipes:
            os.set_blocking(read, False)
        self.writes = [write for _, write in self._pipes]
        self._listener = listen(warm_directory(home))
        self._thread = threading.Thread(target=self._serve, args=(standing, answers))
        self._thread.start()

    def _serve(self, standing: Standing, answers: tuple[JsonObject, ...]) -> None:
        connection, _ = self._listener.accept()
        with connection:
            channel = Channel(connection)
            channel.send(standing.to_json())
            for answer in answers:
                request = channel.receive()
                if request is None:
                    return
                self.requests.append(request)
                channel.send(answer, [read for read, _ in self._pipes] if "address" in answer else ())

    def end(self) -> None:
        self._thread.join()
        self._listener.close()
        for pipe in self._pipes:
            for descriptor in pipe:
                os.close(descriptor)


def standing(facts: Facts) -> Standing:
    return Standing(41, Use.FREE, 0, 2, 60_000, facts)


LENT: JsonObject = {"lent": True, "address": "127.0.0.1:7", "slots": 2, "left": []}


def test_without_one_nothing_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    assert borrow({}, []) is None
    assert capfd.readouterr() == ("", "")


def test_on_a_build_server_and_where_it_is_switched_off_none_is_asked(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (warm_directory(home) / SOCKET).touch()
    assert borrow({}, ["tidegate.warm-cluster.enabled=false"]) is None
    monkeypatch.setenv("CI", "true")
    assert borrow({}, []) is None
    assert capfd.readouterr() == ("", "")


def test_one_that_fits_is_borrowed_and_given_back(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    keeper = FakeKeeper(home, standing(facts_now({"a": "b"})), LENT, {"alive": True}, {"slots": 5}, {})
    cluster = borrow({"a": "b"}, [])
    assert cluster is not None
    assert (cluster.address, cluster.slots) == ("127.0.0.1:7", 2)
    assert cluster.is_alive()
    cluster.add_slots(0)
    cluster.add_slots(3)
    assert cluster.slots == 5
    os.write(keeper.writes[0], b"a line\n")
    os.write(keeper.writes[1], b"an error\n")
    cluster.settle()
    said = capfd.readouterr()
    assert said.out == "a line\n"
    assert said.err == "Runs on the warm cluster (pid 41); `tidegate cluster keep --stop` ends it.\nan error\n"
    cluster.close()
    cluster.close()
    assert [request["what"] for request in keeper.requests] == ["borrow", "is-alive", "add-slots", "give-back"]
    assert keeper.requests[0]["pid"] == os.getpid()
    keeper.end()


def test_one_that_does_not_fit_is_told(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    other = replace(facts_now({}), umask="0000")
    keeper = FakeKeeper(home, standing(other), LENT)
    assert borrow({}, []) is None
    said = capfd.readouterr().err
    assert said.startswith("The warm cluster (pid 41) is not used: its umask is 0000, and the program's ")
    assert said.endswith(". `tidegate cluster keep` makes it fit.\n")
    assert said.count("\n") == 1
    keeper.end()


def test_one_that_another_program_took_first_is_told(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    keeper = FakeKeeper(home, standing(facts_now({})), {"lent": False, "why": "it runs another program (pid 7)"})
    assert borrow({}, []) is None
    assert capfd.readouterr().err == "The warm cluster (pid 41) is not used: it runs another program (pid 7).\n"
    keeper.end()


def test_a_keeper_that_ends_meanwhile_costs_an_answer_and_no_error(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    keeper = FakeKeeper(home, standing(facts_now({})), LENT)
    cluster = borrow({}, [])
    assert cluster is not None
    keeper.end()
    assert not cluster.is_alive()
    cluster.close()
    assert "warning: the warm cluster" in capfd.readouterr().err


def test_a_socket_that_is_none_is_told(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (warm_directory(home) / SOCKET).touch()
    assert borrow({}, []) is None
    assert capfd.readouterr().err.startswith("The warm cluster is not used: its process was killed. `tidegate cluster")
