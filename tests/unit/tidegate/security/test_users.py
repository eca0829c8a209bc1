"""Users: their file, their tokens, and what a role includes."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
from pathlib import Path

import pytest

from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError
from tidegate.security.user_file import add_user, list_users, read_users, remove_user, token_of, users_of
from tidegate.security.users import Role, User, Users, credential_of_token, parse_users

CERTIFICATE = b"the bytes of a certificate"
CERT = f"cert:{hashlib.sha256(CERTIFICATE).hexdigest()}"


def test_each_role_includes_those_before_it() -> None:
    included = {role: [other.value for other in Role if role.includes(other)] for role in Role}
    assert included == {
        Role.VIEW: ["view"],
        Role.DATA: ["view", "data"],
        Role.OPERATE: ["view", "data", "operate"],
        Role.DEPLOY: ["view", "data", "operate", "deploy"],
    }


def test_a_token_is_printed_once_and_the_file_has_its_digest_alone(tmp_path: Path) -> None:
    file = tmp_path / "users"
    token = add_user(file, "ada", Role.OPERATE)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token not in file.read_text()
    users = Users(read_users(file))
    assert users.of_token(token) == User("ada", Role.OPERATE)
    assert users.of_token(f"{token}x") is None
    assert users.of_token("") is None
    assert users.of_token("x" * 1_000_000) is None


def test_a_user_may_have_two_tokens_and_loses_both_when_it_is_removed(tmp_path: Path) -> None:
    file = tmp_path / "users"
    old, new = add_user(file, "ada", Role.VIEW), add_user(file, "ada", Role.VIEW)
    other = add_user(file, "ci", Role.DEPLOY)
    assert list_users(file) == [User("ada", Role.VIEW), User("ci", Role.DEPLOY)]
    assert remove_user(file, "ada") == 2
    assert remove_user(file, "ada") == 0
    users = Users(read_users(file))
    assert [users.of_token(one) for one in (old, new, other)] == [None, None, User("ci", Role.DEPLOY)]


def test_a_user_has_one_role(tmp_path: Path) -> None:
    add_user(tmp_path / "users", "ada", Role.VIEW)
    with pytest.raises(ConfigurationError, match="ada has another role"):
        add_user(tmp_path / "users", "ada", Role.DEPLOY)


def test_a_certificate_may_be_a_user_by_its_fingerprint() -> None:
    digest = hashlib.sha256(CERTIFICATE).hexdigest()
    shown = ":".join(digest[i : i + 2] for i in range(0, 64, 2)).upper()
    users = Users(parse_users(f"ops operate cert:{shown}", "users"))
    assert users.of_certificate(CERTIFICATE) == User("ops", Role.OPERATE)
    assert users.of_certificate(b"another") is None
    assert users.of_token(digest) is None


def test_every_wrong_line_is_told_with_its_number() -> None:
    lines = (
        "# users",
        "",
        "ada view",
        f"bob root {CERT}",
        "cy view md5:12",
        f"x/y view {CERT}",
        f"d view {CERT}",
        f"d data {CERT}",
    )
    with pytest.raises(ConfigurationError) as caught:
        parse_users("\n".join(lines), "users")
    assert caught.value.message.splitlines() == [
        "users line 3: expected a name, a role and a credential, with spaces between them",
        "users line 4: 'root' is none of the roles view, data, operate, deploy",
        "users line 5: a credential is sha256: or cert:, and 64 hex digits",
        "users line 6: 'x/y' is not a valid name, which has up to 64 letters, digits, and any of . _ @ -",
        "users line 8: d has another role above; give each user one role",
    ]


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "users"
    add_user(file, "ada", Role.VIEW)
    file.chmod(0o620)
    with pytest.raises(ConfigurationError, match="other users of this machine may write it"):
        read_users(file)


def test_the_file_is_read_again_and_the_last_good_one_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "users"
    token = add_user(file, "ada", Role.VIEW)
    known = users_of(Configuration.from_strings({"tidegate.security.users.file": str(file)}))
    assert known is not None
    assert known.get().of_token(token) is not None
    good = file.read_bytes()
    file.write_text("nonsense")
    with caplog.at_level(logging.ERROR):
        assert known.get().of_token(token) is not None
    assert "the users that were read before stay" in caplog.text
    file.write_bytes(good)
    remove_user(file, "ada")
    assert known.get().of_token(token) is None


def test_without_a_file_there_are_no_users_and_a_missing_one_stops_the_process(tmp_path: Path) -> None:
    assert users_of(Configuration.from_strings({})) is None
    with pytest.raises(ConfigurationError, match="No such file"):
        users_of(Configuration.from_strings({"tidegate.security.users.file": str(tmp_path / "users")}))


def test_a_client_takes_its_token_from_a_file_that_it_alone_can_read(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("tgu_abc\n")
    os.chmod(file, 0o644)
    options = {"tidegate.security.token-file": str(file)}
    with pytest.raises(ConfigurationError, match="chmod 600"):
        token_of(Configuration.from_strings(options))
    os.chmod(file, 0o600)
    assert token_of(Configuration.from_strings(options)) == "tgu_abc"
    assert token_of(Configuration.from_strings({**options, "tidegate.security.token": "tgu_x"})) == "tgu_x"
    assert token_of(Configuration.from_strings({})) is None


@pytest.mark.parametrize("text", ["\udcff", "tgu_\ud800", "ä", "x" * 600, ""])
def test_a_text_that_is_no_token_is_nobody_s(text: str) -> None:
    assert Users([credential_of_token("ada", Role.VIEW, "t")]).of_token(text) is None
