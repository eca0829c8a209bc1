"""The key that a user's processes know each other by: made once, readable by that user alone, and never taken from another one."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography import x509

from tidegate.model.errors import ExternalError
from tidegate.security.own import NAME, own_key


def test_it_is_made_once_for_the_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    home = tmp_path / "home"
    before = os.umask(0)
    try:
        made = own_key(home)
    finally:
        os.umask(before)
    assert own_key(home) == made
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (home, home / "security", made.path)]
    assert modes == [0o700, 0o700, 0o600]
    assert os.listdir(home / "security") == ["own.pem"]
    certificate = x509.load_pem_x509_certificate(made.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [NAME]


def test_of_many_that_make_it_at_once_all_have_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(own_key, [tmp_path] * 16))
    assert len(found) == 1
    assert os.listdir(tmp_path / "security") == ["own.pem"]


def open_to_others(path: Path) -> None:
    path.chmod(0o640)


def linked(path: Path) -> None:
    path.rename(path.with_suffix(".theirs"))
    path.symlink_to(path.with_suffix(".theirs"))


def damaged(path: Path) -> None:
    path.write_text("half written")


def open_directory(path: Path) -> None:
    path.parent.chmod(0o755)


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (open_to_others, "other users of this machine can read"),
        (open_directory, "other users of this machine can read"),
        (linked, "is not yours; remove it"),
        (damaged, "is damaged; remove it"),
    ],
    ids=["open to others", "open directory", "link", "damaged"],
)
def test_one_that_cannot_be_trusted_is_refused(harm: Callable[[Path], None], why: str, tmp_path: Path) -> None:
    harm(own_key(tmp_path).path)
    with pytest.raises(ExternalError, match=why):
        own_key(tmp_path)


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ExternalError, match=r"file.*set tidegate\.home to a directory that you can write"):
        own_key(tmp_path / "file")
