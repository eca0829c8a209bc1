"""Where keys that sign programs come from: a file, the key of the user, or nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.aio.signing import signing_of, signing_of_manifests
from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.security.own import own_key
from tidegate.security.signing import key_of_own, key_of_text

FILE, ENABLED = "tidegate.security.signing.key-file", "tidegate.security.signing.enabled"
INSECURE, TLS = "tidegate.security.insecure", "security.ssl.internal.enabled"


def configured(**texts: str) -> Configuration:
    return Configuration.from_strings(texts)


def key_file(directory: Path, content: str) -> Path:
    path = directory / "keys"
    path.write_text(content, encoding="utf-8")
    path.chmod(0o600)
    return path


def test_on_one_machine_the_key_follows_from_that_of_the_user(tmp_path: Path) -> None:
    now = signing_of(configured(**{"tidegate.home": str(tmp_path)}))
    assert now is not None
    assert now().keys == (key_of_own(own_key(tmp_path).key),)
    assert own_key(tmp_path).key not in now().keys[0]


def test_a_file_comes_first_and_is_read_again(tmp_path: Path) -> None:
    path = key_file(tmp_path, f"{'a' * 32}\n\n{'b' * 40}\n")
    for also in ({}, {INSECURE: "true"}, {TLS: "true"}):
        now = signing_of(configured(**{FILE: str(path), "tidegate.security.signing.cluster": "production", **also}))
        assert now is not None
        assert now().keys == (key_of_text("a" * 32), key_of_text("b" * 40))
        assert now().cluster == "production"
    assert now is not None
    other = key_file(tmp_path, "c" * 64)
    assert now().keys == (key_of_text("c" * 64),)
    other.write_text("short", encoding="utf-8")
    assert now().keys == (key_of_text("c" * 64),), "what was read before stays"


@pytest.mark.parametrize("also", [{INSECURE: "true"}, {TLS: "true"}])
def test_without_a_key_nothing_is_signed_unless_it_is_asked_for(also: dict[str, str]) -> None:
    assert signing_of(configured(**also)) is None
    with pytest.raises(ConfigurationError, match=f"{ENABLED} is true, and {FILE} is not set.*openssl rand"):
        signing_of(configured(**also, **{ENABLED: "true"}))


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    assert signing_of(configured(**{ENABLED: "false", FILE: str(tmp_path / "none")})) is None


def test_bad_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot read {FILE}"):
        signing_of(configured(**{FILE: str(tmp_path / "none")}))
    path = key_file(tmp_path, "a" * 31)
    with pytest.raises(ConfigurationError, match="each line is a key of at least 32 characters"):
        signing_of(configured(**{FILE: str(path)}))
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="each line is a key"):
        signing_of(configured(**{FILE: str(path)}))
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="other users of this machine can read this secret"):
        signing_of(configured(**{FILE: str(path)}))


def test_manifests_are_signed_when_they_are_asked_to_be_and_never_without_a_key(tmp_path: Path) -> None:
    manifests = "tidegate.security.signing.manifests"
    assert signing_of_manifests(configured(**{"tidegate.home": str(tmp_path)})) is None
    now = signing_of_manifests(configured(**{"tidegate.home": str(tmp_path), manifests: "true"}))
    assert now is not None
    assert now().keys == (key_of_own(own_key(tmp_path).key),)
    for without in ({INSECURE: "true"}, {ENABLED: "false"}):
        with pytest.raises(ConfigurationError, match=f"{manifests} is true, and there is no key: set {FILE}"):
            signing_of_manifests(configured(**{manifests: "true", **without}))
