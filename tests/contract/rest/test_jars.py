"""``/jars``: what is taken, what is refused, and how a program is looked at."""

from __future__ import annotations

import io
import zipfile
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import FormData

from tests.contract.rest.asking import Client, ask, serving
from tests.contract.rest.scene import Scene
from tidegate.model.ids import hex_id

JOB_FILE = """
import sys
from tidegate.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2, 3]).map(lambda x: x + 1).name("plus").print()
env.execute("job " + " ".join(sys.argv[1:]))
"""


@pytest.fixture
async def client(scene: Scene) -> AsyncIterator[Client]:
    async with serving(scene) as client:
        for program in (await ask(client, "GET", "/jars", 200))["files"]:
            await ask(client, "DELETE", f"/jars/{program['id']}", 200)
        yield client


def form(name: str, content: bytes) -> FormData:
    data = FormData()
    data.add_field("jarfile", content, filename=name, content_type="application/x-java-archive")
    return data


def zipped(members: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return buffer.getvalue()


async def upload(client: Client, name: str, content: bytes) -> str:
    answer = await ask(client, "POST", "/v1/jars/upload", 200, data=form(name, content))
    assert answer["status"] == "success"
    return str(answer["filename"]).rpartition("/")[2]


async def test_what_was_uploaded_is_listed_until_it_is_deleted(client: Client) -> None:
    jar = await upload(client, "count.py", b"print()")
    [item] = (await ask(client, "GET", "/jars", 200))["files"]
    assert (item["id"], item["name"], item["entry"]) == (jar, "count.py", [{"name": "count.py", "description": None}])
    assert isinstance(item["uploaded"], int)
    assert await ask(client, "DELETE", f"/jars/{jar}", 200) == {}
    assert (await ask(client, "GET", "/jars", 200))["files"] == []
    body = await ask(client, "DELETE", f"/jars/{jar}", 400)
    assert "does not exist" in body["errors"][0]


async def test_the_default_entry_of_a_zip_stands_first(client: Client) -> None:
    await upload(client, "jobs.zip", zipped({"a.py": "", "__main__.py": "", "b/c.py": "", "notes.txt": ""}))
    [item] = (await ask(client, "GET", "/jars", 200))["files"]
    assert [entry["name"] for entry in item["entry"]] == ["__main__.py", "a.py"]


BAD: dict[str, tuple[str, bytes, str]] = {
    "a name that leads elsewhere is cut": ("../../etc/cron.d/job.txt", b"x", "Only Python job files"),
    "another kind of file": ("job.sh", b"rm -rf /", "Only Python job files"),
    "a hidden file": (".py", b"", "Only Python job files"),
    "a binary": ("job.py", b"\x7fELF\xff\xfe", "not UTF-8 text"),
    "a NUL": ("job.py", b"print()\0", "it holds a NUL"),
    "no zip": ("job.zip", b"PK no zip", "not a zip file"),
    "a jar of Java": ("job.jar", zipped({"META-INF/MANIFEST.MF": "", "x/Y.class": ""}), "no Python job file"),
    "a way out of the zip": ("job.zip", zipped({"../evil.py": "", "a.py": ""}), "leads out of it"),
    "an absolute path in the zip": ("job.zip", zipped({"/etc/evil.py": ""}), "leads out of it"),
    "a bomb": ("job.zip", zipped({"a.py": "", "big.txt": "0" * 1_000_000}), "unpacks to more than"),
    "too many members": ("job.zip", zipped({f"{n}.txt": "" for n in range(500)} | {"a.py": ""}), ""),
}


@pytest.mark.parametrize("case", [name for name in BAD if name != "too many members"])
async def test_what_is_refused(case: str, client: Client) -> None:
    name, content, text = BAD[case]
    body = await ask(client, "POST", "/jars/upload", 400, data=form(name, content))
    assert text in body["errors"][0]
    assert (await ask(client, "GET", "/jars", 200))["files"] == []


async def test_too_many_members(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.jobmanager.programs.files.MAX_MEMBERS", 100)
    name, content, _ = BAD["too many members"]
    body = await ask(client, "POST", "/jars/upload", 400, data=form(name, content))
    assert "501 members" in body["errors"][0]


async def test_an_upload_that_is_too_large(client: Client, scene: Scene) -> None:
    body = await ask(client, "POST", "/jars/upload", 413, data=form("job.py", b"#" * 100_001))
    assert "larger than 100000 bytes" in body["errors"][0]
    assert scene.programs is not None
    assert not any(path.name.startswith(".upload-") for path in scene.programs.files.directory.iterdir())


async def test_no_file_or_two(client: Client) -> None:
    none = FormData({"jarfile": "text"}, default_to_multipart=True)
    assert "received 0" in (await ask(client, "POST", "/jars/upload", 400, data=none))["errors"][0]
    two = form("a.py", b"")
    two.add_field("other", b"", filename="b.py")
    assert "received 2" in (await ask(client, "POST", "/jars/upload", 400, data=two))["errors"][0]
    broken = {"data": b"no parts", "headers": {"content-type": "multipart/form-data; boundary=x"}}
    await ask(client, "POST", "/jars/upload", 400, **broken)


async def test_uploads_of_foreign_pages_are_refused(client: Client) -> None:
    foreign = {"Origin": "http://evil.example"}
    await ask(client, "POST", "/jars/upload", 403, data=form("job.py", b""), headers=foreign)


@pytest.mark.parametrize(
    "body",
    [
        {"parallelism": 0},
        {"parallelism": "two"},
        {"parallelism": "40000"},
        {"parallelism": True},
        {"programArgsList": "a b"},
        {"programArgsList": [1]},
        {"programArgs": ["a"]},
        {"programArgs": "a", "programArgsList": ["a"]},
        {"jobId": "no id"},
        {"claimMode": "MINE"},
        {"allowNonRestoredState": "yes"},
        {"flinkConfiguration": {"a": 1}},
        {"savepointPath": 7},
        [],
    ],
)
async def test_bad_requests(body: Any, client: Client) -> None:
    jar = await upload(client, "count.py", b"print()")
    await ask(client, "POST", f"/jars/{jar}/run", 400, json=body)


async def test_the_plan_of_a_program(client: Client) -> None:
    """Its client part runs in a process of its own, up to the job."""
    jar = await upload(client, "jobs.zip", zipped({"jobs/one.py": JOB_FILE, "a.py": "raise SystemExit(3)"}))
    asked = {"entryClass": "jobs.one", "programArgsList": ["x", "y z"], "parallelism": 3, "jobId": hex_id("mine")}
    plan = (await ask(client, "POST", f"/jars/{jar}/plan", 200, json=asked))["plan"]
    assert (plan["name"], plan["jid"], plan["type"]) == ("job x y z", hex_id("mine"), "STREAMING")
    assert any("plus" in node["description"] and node["parallelism"] == 3 for node in plan["nodes"])
    body = await ask(client, "POST", f"/jars/{jar}/plan", 400, json={"entryClass": "jobs.two"})
    assert "no entry point 'jobs.two'" in body["errors"][0]


async def test_flinks_dashboard_sends_the_parallelism_as_a_text(client: Client) -> None:
    jar = await upload(client, "jobs.zip", zipped({"jobs/one.py": JOB_FILE, "a.py": "raise SystemExit(3)"}))
    asked = {"entryClass": "jobs.one", "parallelism": "3"}
    plan = (await ask(client, "POST", f"/jars/{jar}/plan", 200, json=asked))["plan"]
    assert any("plus" in node["description"] and node["parallelism"] == 3 for node in plan["nodes"])


@pytest.mark.parametrize("where", ["body", "query"])
async def test_a_line_of_arguments_is_cut_at_blanks_outside_quotes(where: str, client: Client) -> None:
    jar = await upload(client, "jobs.zip", zipped({"jobs/one.py": JOB_FILE, "a.py": "raise SystemExit(3)"}))
    line = """x "y z" 'a'"""
    query, body = ("", {"programArgs": line}) if where == "body" else (f"?program-args={quote(line)}", {})
    plan = (await ask(client, "POST", f"/jars/{jar}/plan{query}", 200, json=body | {"entryClass": "jobs.one"}))["plan"]
    assert plan["name"] == "job x y z a"


async def test_a_program_that_fails_tells_why(client: Client) -> None:
    jar = await upload(client, "bad.py", b"def f():\n    raise ValueError('what went wrong')\nf()\n")
    body = await ask(client, "GET", f"/jars/{jar}/plan", 400)
    assert "bad.py raised ValueError: what went wrong" in body["errors"][0]


async def test_a_program_that_does_not_come_to_its_job_is_ended(client: Client, scene: Scene) -> None:
    assert scene.programs is not None
    scene.programs._timeout_ms = 1_500
    jar = await upload(client, "hangs.py", b"import threading\nthreading.Event().wait()\n")
    body = await ask(client, "GET", f"/jars/{jar}/plan", 400)
    assert "did not submit a job within 1500 ms" in body["errors"][0]
    assert scene.programs._running == set()


async def test_switched_off(scene: Scene) -> None:
    scene.programs = None
    async with serving(scene) as client:
        assert (await ask(client, "GET", "/jars", 404))["errors"] == ["Unable to load requested file /jars."]
        assert (await ask(client, "POST", "/jars/upload", 404))["errors"] == ["Not found: /jars/upload"]
