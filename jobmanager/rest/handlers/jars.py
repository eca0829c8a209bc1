"""``/jars``: upload, inspection and run of programs. A Python job file or a zip of them takes the place of Flink's jar."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from functools import partial

from tidegate.jobmanager.programs.files import Program
from tidegate.jobmanager.programs.runs import ProgramRuns, RunRequest
from tidegate.jobmanager.rest.http.errors import RestError, bad_request
from tidegate.jobmanager.rest.http.request import RestRequest, choice_of, text_of
from tidegate.jobmanager.rest.responses.jobs import plan
from tidegate.jobmanager.rest.routes import Route, reads, writes
from tidegate.model.errors import NoResourceAvailable, TidegateError
from tidegate.model.ids import JobId, parse_job_id
from tidegate.model.options import ClaimMode
from tidegate.model.values import JsonObject

MAX_PARALLELISM = 32_768
"""The highest parallelism: Flink's largest number of key groups."""
_FALSE, _TRUE = "false", "true"
_DIGITS = re.compile("[0-9]{1,5}")
_ARGUMENT = re.compile(r"""([^"']\S*|".+?"|'.+?')\s*""")
"""One argument of a command line: a word, or a quoted text (``JarHandlerUtils.tokenizeArguments``)."""


class JarHandlers:
    """The handlers of ``/jars``.

    ``is_known``: tells whether a job with this id was submitted before. ``runs``: ``None`` when web.submit.enable is false; the paths
    are unknown then, as in Flink.
    """

    def __init__(self, runs: ProgramRuns | None, is_known: Callable[[JobId], bool]) -> None:
        self._given = runs
        self._is_known = is_known

    def routes(self) -> list[Route]:
        if self._given is None:
            return []
        return [
            reads("/jars", self._list),
            Route("POST", "/jars/upload", self._upload, changes=True, uploads=True),
            writes("DELETE", "/jars/:jarid", self._delete, 200),
            Route("GET", "/jars/:jarid/plan", self._plan, changes=True),  # it runs the program, up to its job
            writes("POST", "/jars/:jarid/plan", self._plan, 200),
            writes("POST", "/jars/:jarid/run", self._run, 200),
            writes("POST", "/jars/:jarid/run-application", self._run_application),
        ]

    async def _list(self, request: RestRequest) -> JsonObject:
        found = await self._runs.on_disk(self._runs.files.list)
        return {"address": request.base_url, "files": [_item(program) for program in found]}

    async def _upload(self, request: RestRequest) -> JsonObject:
        assert request.upload is not None
        files = self._runs.files
        incoming = files.begin()
        try:
            name = await request.upload.save(incoming, files.max_bytes)
            with _refused():
                program = await self._runs.on_disk(partial(files.adopt, incoming, name))
        except OSError as error:
            raise RestError(500, "Internal server error.", f"Cannot store the upload: {error.strerror}") from None
        finally:
            files.drop(incoming)
        return {"filename": str(program.path), "status": "success"}

    async def _delete(self, request: RestRequest) -> JsonObject:
        with _refused():
            await self._runs.on_disk(partial(self._runs.files.remove, request.parameters["jarid"]))
        return {}

    async def _plan(self, request: RestRequest) -> JsonObject:
        program, run = await self._requested_run(request)
        with _refused("Could not build the plan of this program: "):
            graph = await self._runs.plan(program, run)
        return {"plan": plan(run.job_id or graph.job_id, graph)}

    async def _run(self, request: RestRequest) -> JsonObject:
        job_id = await self._submitted(request)
        return {"jobid": job_id, "applicationId": job_id}

    async def _run_application(self, request: RestRequest) -> JsonObject:
        return {"applicationid": await self._submitted(request)}

    async def _submitted(self, request: RestRequest) -> JobId:
        program, run = await self._requested_run(request)
        if run.job_id is not None and self._is_known(run.job_id):
            raise RestError(409, f"Job {request.job_id} was submitted before.")
        with _refused("Could not execute application: "):
            return await self._runs.submit(program, run)

    async def _requested_run(self, request: RestRequest) -> tuple[Program, RunRequest]:
        run = run_request(request)
        with _refused():
            program = await self._runs.on_disk(partial(self._runs.files.find, request.parameters["jarid"]))
        return program, run

    @property
    def _runs(self) -> ProgramRuns:
        assert self._given is not None
        return self._given


def run_request(request: RestRequest) -> RunRequest:
    """Reads the options of a run; fields of the body take precedence over the query, as in Flink (``JarHandlerUtils.java``). Raises
    ``RestError`` 400.
    """
    body = request.json_object()
    job_id = text_of(body, "jobId") or text_of(body, "applicationId")
    return RunRequest(
        entry=text_of(body, "entryClass") or request.query.get("entry-class") or None,
        arguments=_arguments(request, body),
        parallelism=_parallelism(request, body),
        job_id=_job_id(job_id) if job_id else None,
        restore_path=text_of(body, "savepointPath") or request.query.get("savepointPath") or None,
        allow_non_restored_state=_allows(request, body),
        claim_mode=_claim_mode(body),
        settings=_settings(body),
    )


def _arguments(request: RestRequest, body: JsonObject) -> tuple[str, ...]:
    found, line = body.get("programArgsList"), text_of(body, "programArgs") or request.query.get("program-args")
    if line is not None and found is not None:
        raise bad_request(
            "Confusing request: both programArgs and programArgsList are given; send programArgsList alone."
        )
    if line is not None:
        return tuple(part.strip("\"'") for part in _ARGUMENT.findall(line))
    if found is None:
        return tuple(request.listed("programArg") or ())
    if not isinstance(found, list) or not all(isinstance(item, str) and "\0" not in item for item in found):
        raise bad_request("Request did not match expected format: programArgsList has to be a list of strings.")
    return tuple(found)


def _parallelism(request: RestRequest, body: JsonObject) -> int | None:
    """Reads the parallelism: a number, or its digits as a text, which Flink's dashboard sends."""
    found = body.get("parallelism")
    if found is None and "parallelism" in request.query:
        found = request.query_number("parallelism", 0)
    if found is None or found == "":
        return None
    if isinstance(found, str) and _DIGITS.fullmatch(found):
        found = int(found)
    if not isinstance(found, int) or isinstance(found, bool) or not 1 <= found <= MAX_PARALLELISM:
        raise bad_request(
            f"Request did not match expected format: parallelism {found!r} is not in 1 .. {MAX_PARALLELISM}."
        )
    return found


def _job_id(text: str) -> JobId:
    try:
        return parse_job_id(text)
    except ValueError as error:
        raise bad_request(f"Request did not match expected format: jobId: {error}") from None


def _allows(request: RestRequest, body: JsonObject) -> bool:
    found = body.get("allowNonRestoredState")
    if found is None:
        text = request.query.get("allowNonRestoredState", _FALSE).lower()
        if text not in (_TRUE, _FALSE):
            raise bad_request(
                f"Cannot resolve query parameter (allowNonRestoredState) from value {text!r}: expected true or false."
            )
        return text == _TRUE
    if not isinstance(found, bool):
        raise bad_request("Request did not match expected format: allowNonRestoredState has to be true or false.")
    return found


def _claim_mode(body: JsonObject) -> str | None:
    name = "claimMode" if body.get("claimMode") is not None else "restoreMode"
    return None if body.get(name) is None else choice_of(body, name, ClaimMode, ClaimMode.NO_CLAIM).value


def _settings(body: JsonObject) -> dict[str, str]:
    found = body.get("flinkConfiguration")
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(
        isinstance(value, str) and "\0" not in key + value for key, value in found.items()
    ):
        raise bad_request("Request did not match expected format: flinkConfiguration has to be an object of strings.")
    return found


def _item(program: Program) -> JsonObject:
    entries = sorted(program.entries, key=lambda entry: entry != program.default)
    return {
        "id": program.program_id,
        "name": program.name,
        "uploaded": program.uploaded_ms,
        "entry": [{"name": entry, "description": None} for entry in entries],
    }


@contextlib.contextmanager
def _refused(before: str = "") -> Iterator[None]:
    """Reports errors of a program as 400, and missing resources as 503."""
    try:
        yield
    except NoResourceAvailable as error:
        raise RestError(503, error.message) from None
    except TidegateError as error:
        raise bad_request(before + error.message) from None
