from __future__ import annotations

import threading

from tidegate.taskmanager.runtime.background import BackgroundThread
from tidegate.taskmanager.runtime.mailbox import Mailbox
from tidegate.taskmanager.runtime.ports import CallMail, CancelTask, ControlLost


def test_mails_come_out_in_their_order_once() -> None:
    mailbox = Mailbox()
    mailbox.put(CancelTask())
    mailbox.put(ControlLost())
    assert mailbox.take_all() == [CancelTask(), ControlLost()]
    assert mailbox.take_all() == []


def test_a_wake_before_the_wait_is_not_slept_over() -> None:
    mailbox = Mailbox()
    mailbox.wake()
    mailbox.wait(None)  # would never return
    mailbox.put(CancelTask())
    mailbox.wait(None)
    assert mailbox.take_all() == [CancelTask()]


def test_a_wait_ends_by_itself_after_its_time() -> None:
    mailbox = Mailbox()
    mailbox.wait(1.0)
    mailbox.wait(-5.0)
    assert mailbox.take_all() == []


def test_another_thread_ends_the_wait() -> None:
    mailbox = Mailbox()
    threading.Thread(target=mailbox.wake).start()
    mailbox.wait(None)
    threading.Thread(target=lambda: mailbox.put(CancelTask())).start()
    mailbox.wait(None)
    assert mailbox.take_all() == [CancelTask()]


def test_background_work_comes_back_as_mails_in_its_order() -> None:
    mailbox = Mailbox()
    background = BackgroundThread("test", mailbox)
    seen: list[tuple[str, str]] = []
    threads: set[int] = set()

    def work() -> None:
        threads.add(threading.get_ident())

    def fail() -> None:
        raise OSError("disk full")

    background.submit(work, lambda error: seen.append(("work", str(error))))
    background.submit(fail, lambda error: seen.append(("fail", str(error))))
    assert background.close(5000.0)
    for mail in mailbox.take_all():
        assert isinstance(mail, CallMail)
        mail.call()
    assert seen == [("work", "None"), ("fail", "disk full")]
    assert threading.get_ident() not in threads


def test_a_background_thread_that_hangs_is_left_alone() -> None:
    background = BackgroundThread("test", Mailbox())
    hanging = threading.Event()

    def hang() -> None:
        hanging.wait()

    background.submit(hang, lambda _: None)
    assert not background.close(1.0)
    hanging.set()


def test_closing_an_unused_background_thread_is_nothing() -> None:
    assert BackgroundThread("test", Mailbox()).close(0.0)
