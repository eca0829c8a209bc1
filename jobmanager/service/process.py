"""The lifecycle of a JobManager process: it leads, stands by while another one leads, and leads again, until it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from tidegate.aio.process import Services, Shutdown, collect_seldom
from tidegate.aio.wakeful_loop import WakefulLoop
from tidegate.high_availability.port import Deposed
from tidegate.jobmanager.service.app import Listening, start_services
from tidegate.jobmanager.service.high_availability.services import StandbyEnded
from tidegate.jobmanager.service.reporting.startup_log import announce
from tidegate.model.configuration import Configuration

_log = logging.getLogger("jobmanager")


def run(configuration: Configuration, on_ready: Callable[[Listening], None] = lambda _: None) -> int:
    """Runs a JobManager until a signal or a client ends it: exit code 0, or 1 after an error. Raises ``TidegateError`` when it cannot start."""
    collect_seldom()
    with asyncio.Runner(loop_factory=WakefulLoop) as runner:
        return runner.run(serve(configuration, on_ready))


async def serve(configuration: Configuration, on_ready: Callable[[Listening], None]) -> int:
    """Runs a JobManager on a running loop until it is shut down. ``on_ready`` is called in each of its terms."""
    announce(configuration)
    shutdown = Shutdown()
    shutdown.catch_signals()
    with suppress(StandbyEnded):
        while not shutdown.is_requested:
            await _lead_once(configuration, on_ready, shutdown)
    _log.info("JobManager is stopped")
    return shutdown.exit_code


async def _lead_once(configuration: Configuration, on_ready: Callable[[Listening], None], shutdown: Shutdown) -> None:
    """Leads for one term. Nothing of a term is reused in the next, since it may be outdated by then."""
    services = Services()
    try:
        listening = await start_services(configuration, services, shutdown)
        on_ready(listening)
        ends = [asyncio.create_task(shutdown.wait()), asyncio.create_task(listening.term.is_over.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        _log.info("shutting down: %s", shutdown.reason or "another JobManager leads")
    except Deposed as error:  # deposed before it began to lead
        _log.info("shutting down: %s", error.message)
    finally:
        await services.stop_all()
