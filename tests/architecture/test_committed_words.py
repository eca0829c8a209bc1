"""What must not be committed: paths of somebody's machine, addresses of package indexes, promises instead of code."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.architecture.source import ROOT, committed_files, name_of

# Written with a class of one letter where the pattern would otherwise find itself.
MACHINE_PATH = re.compile(r"(?<![\w.}])/(?:ho[m]e/\w+|U[s]ers/\w+|ro[o]t/\w*|w[o]rk/\w+|o[p]t/wheels)")
INDEX_ADDRESS = re.compile(
    r"--(?:extra-)?ind[e]x-url|--trusted-h[o]st|://[^\s)\"'`]*/s[i]mple\b|://[^\s)\"'`]*pythonh[o]sted"
)
PROMISE = re.compile(r"\b(?:T[O]DO|FI[X]ME|X{3})\b")
TEXT_SUFFIXES = {
    ".py",
    ".pyi",
    ".md",
    ".toml",
    ".yaml",
    ".yml",
    ".proto",
    ".lock",
    ".txt",
    ".cfg",
    ".json",
    ".html",
    ".js",
    ".css",
    "",
}


def _hits(pattern: re.Pattern[str], skip: tuple[str, ...] = ()) -> list[str]:
    return [
        f"{name_of(path)}:{number}: {line.strip()[:120]}"
        for path in committed_files()
        if path.suffix in TEXT_SUFFIXES and not name_of(path).startswith(skip or ("\0",))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]


@pytest.fixture(autouse=True)
def _in_a_repository() -> None:
    if not committed_files():
        pytest.skip("not a git repository")


def test_no_path_of_a_machine() -> None:
    assert _hits(MACHINE_PATH) == []


def test_no_address_of_a_package_index() -> None:
    assert _hits(INDEX_ADDRESS, skip=("requirements/lock",)) == []


def test_no_promise_instead_of_code() -> None:
    assert _hits(PROMISE, skip=("LICENSE",)) == []


def test_the_lock_pins_every_package_by_hash() -> None:
    for name in ("base", "dev", "lowest"):
        text = (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")
        pins = re.findall(r"^([a-z0-9][a-z0-9._-]*)==\S+( ; [^\\\n]+)? \\\n    --hash=sha256:", text, re.MULTILINE)
        assert len(pins) == len(re.findall(r"^[a-z0-9]", text, re.MULTILINE))


def test_the_lock_covers_what_the_project_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [requirement for extra in project["optional-dependencies"].values() for requirement in extra]
    locked = (ROOT / "requirements" / "dev.lock").read_text(encoding="utf-8")
    names = [re.split(r"[<>=~!;\[ ]", requirement)[0] for requirement in (*project["dependencies"], *extras)]
    assert [name for name in names if not re.search(rf"^{re.escape(name)}==", locked, re.MULTILINE)] == []


def test_the_lower_bounds_are_the_versions_that_are_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tools = ("dev", "docs")  # used in the versions of dev.lock alone
    extras = [
        wanted
        for extra, all_wanted in project["optional-dependencies"].items()
        if extra not in tools
        for wanted in all_wanted
    ]
    locked = (ROOT / "requirements" / "lowest.lock").read_text(encoding="utf-8")
    pins = re.findall(r"^([a-z0-9][a-z0-9._-]*)==([0-9.]+)", locked, re.MULTILINE)
    tested = {(name, re.sub(r"(\.0)+$", "", version)) for name, version in pins}
    bounds = [
        re.match(r"([a-z0-9-]+)(?:\[\w+\])?>=([0-9.]+)", wanted) for wanted in (*project["dependencies"], *extras)
    ]
    assert len(bounds) > 30
    assert [bound for bound in bounds if not bound or (bound[1], re.sub(r"(\.0)+$", "", bound[2])) not in tested] == []
