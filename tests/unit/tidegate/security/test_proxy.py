"""Users of a proxy: who is believed, and what a user may do who has such groups."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from tidegate.model.configuration import Configuration
from tidegate.model.errors import ConfigurationError, NotAuthenticated, NotPermitted
from tidegate.security.proxy import TrustedProxy
from tidegate.security.users import Role, User

SECRET = "the-word-of-the-proxy"
SECRETS, USER, GROUPS = "X-Tidegate-Proxy-Secret", "X-Forwarded-User", "X-Forwarded-Groups"
OF_PROXY, OF_EVE = b"the certificate of the proxy", b"the certificate of eve"
BY_CERTIFICATE = {
    "tidegate.security.proxy.fingerprint": hashlib.sha256(OF_PROXY).hexdigest(),
    "security.ssl.rest.enabled": "true",
    "security.ssl.rest.authentication-enabled": "true",
}


def options(directory: Path, **more: str) -> dict[str, str]:
    return {
        "tidegate.security.users.file": str(directory / "users"),
        "tidegate.security.proxy.roles": "admins:deploy;/ops/night:operate;staff:view",
        **more,
    }


def with_secret(directory: Path, secret: str = SECRET, mode: int = 0o600) -> dict[str, str]:
    directory.mkdir(exist_ok=True)
    file = directory / "secret"
    file.write_text(f"{secret}\n")
    file.chmod(mode)
    return options(directory, **{"tidegate.security.proxy.secret-file": str(file)})


def proxy_of(texts: dict[str, str]) -> TrustedProxy:
    found = TrustedProxy.of(Configuration.from_strings(texts))
    assert found is not None
    return found


def asked(proxy: TrustedProxy, *headers: tuple[str, str], certificate: bytes | None = None) -> User | None:
    def values_of(name: str) -> Sequence[str]:
        return [value for header, value in headers if header.lower() == name.lower()]

    return proxy.user(values_of, certificate)


def test_the_user_has_the_greatest_role_of_the_groups(tmp_path: Path) -> None:
    proxy = proxy_of(with_secret(tmp_path))
    for groups, role in (("staff", Role.VIEW), ("staff, /ops/night,x", Role.OPERATE), ("admins,staff", Role.DEPLOY)):
        found = asked(proxy, (SECRETS, SECRET), (USER, "ada@example.com"), (GROUPS, groups))
        assert found == User("ada@example.com", role, "a proxy")


@pytest.mark.parametrize("groups", [(), ((GROUPS, ""),), ((GROUPS, "strangers"),), ((GROUPS, "Staff"),)])
def test_a_user_without_a_group_that_has_a_role_may_do_nothing(
    tmp_path: Path, groups: tuple[tuple[str, str], ...]
) -> None:
    with pytest.raises(NotPermitted, match=r"ada is in none of the groups of tidegate.security.proxy.roles"):
        asked(proxy_of(with_secret(tmp_path)), (SECRETS, SECRET), (USER, "ada"), *groups)


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ([(USER, "ada"), (GROUPS, "admins")], f"are accepted only from the proxy, which also sends {SECRETS}"),
        ([(GROUPS, "admins")], "are accepted only from the proxy"),
        ([(SECRETS, "wrong-wrong-wrong"), (USER, "ada"), (GROUPS, "admins")], f"{SECRETS} is not that of the proxy"),
        ([(SECRETS, "wrong-wrong-wrong")], f"{SECRETS} is not that of the proxy"),
        ([(SECRETS, ""), (USER, "ada"), (GROUPS, "admins")], f"{SECRETS} is not that of the proxy"),
        ([(SECRETS, "\udcff"), (USER, "ada"), (GROUPS, "admins")], f"{SECRETS} is not that of the proxy"),
        (
            [(SECRETS, SECRET), (SECRETS, SECRET), (USER, "ada"), (GROUPS, "staff")],
            f"{SECRETS} of the proxy has 2 values",
        ),
        ([(SECRETS, SECRET), (USER, "ada"), (USER, "eve"), (GROUPS, "staff")], f"{USER} of the proxy has 2 values"),
        ([(SECRETS, SECRET), (USER, "ada"), ("x-forwarded-USER", "eve"), (GROUPS, "staff")], "has 2 values"),
        (
            [(SECRETS, SECRET), (USER, "ada"), (GROUPS, "staff"), (GROUPS, "admins")],
            f"{GROUPS} of the proxy has 2 values",
        ),
        ([(SECRETS, SECRET), (USER, "ada, eve"), (GROUPS, "staff")], f"{USER} of the proxy has several values"),
        ([(SECRETS, SECRET), (GROUPS, "staff")], f"{USER} of the proxy has no values"),
        ([(SECRETS, SECRET), (USER, " "), (GROUPS, "staff")], f"{USER} of the proxy is not a valid name of a user"),
        ([(SECRETS, SECRET), (USER, "a\x07"), (GROUPS, "staff")], f"{USER} of the proxy is not a valid name of a user"),
        (
            [(SECRETS, SECRET), (USER, "a" * 257), (GROUPS, "staff")],
            f"{USER} of the proxy is not a valid name of a user",
        ),
    ],
)
def test_what_is_not_certainly_the_proxys_word_is_refused(
    tmp_path: Path, headers: list[tuple[str, str]], why: str
) -> None:
    with pytest.raises(NotAuthenticated) as refused:
        asked(proxy_of(with_secret(tmp_path)), *headers)
    assert why in refused.value.message


def test_a_request_that_says_nothing_of_a_user_is_judged_by_its_token(tmp_path: Path) -> None:
    proxy = proxy_of(with_secret(tmp_path))
    assert asked(proxy) is None
    assert asked(proxy, ("Authorization", "Bearer tgu_x")) is None
    assert asked(proxy, (SECRETS, SECRET)) is None


def test_the_certificate_of_the_proxy_is_a_proof_as_well(tmp_path: Path) -> None:
    proxy = proxy_of(options(tmp_path, **BY_CERTIFICATE))
    said = ((USER, "ada"), (GROUPS, "staff"))
    via = f"proxy {hashlib.sha256(OF_PROXY).hexdigest()}"
    assert asked(proxy, *said, certificate=OF_PROXY) == User("ada", Role.VIEW, via)
    for certificate in (None, OF_EVE):
        with pytest.raises(NotAuthenticated, match="the certificate of this request is not the proxy's"):
            asked(proxy, *said, certificate=certificate)
    assert asked(proxy, certificate=OF_EVE) is None


def test_with_both_proofs_configured_both_are_needed(tmp_path: Path) -> None:
    proxy = proxy_of({**with_secret(tmp_path), **BY_CERTIFICATE})
    said = ((USER, "ada"), (GROUPS, "staff"))
    found = asked(proxy, (SECRETS, SECRET), *said, certificate=OF_PROXY)
    assert found is not None
    with pytest.raises(NotAuthenticated):
        asked(proxy, *said, certificate=OF_PROXY)
    with pytest.raises(NotAuthenticated):
        asked(proxy, (SECRETS, SECRET), *said, certificate=OF_EVE)


def test_a_new_secret_counts_from_the_next_request_on(tmp_path: Path) -> None:
    proxy = proxy_of(with_secret(tmp_path))
    (tmp_path / "secret").write_text("another secret of the proxy")
    said = ((USER, "ada"), (GROUPS, "staff"))
    assert asked(proxy, (SECRETS, "another secret of the proxy"), *said) is not None
    with pytest.raises(NotAuthenticated):
        asked(proxy, (SECRETS, SECRET), *said)


def test_headers_have_other_names_where_that_is_configured(tmp_path: Path) -> None:
    names = {"user-header": "Remote-User", "groups-header": "Remote-Groups", "secret-header": "Proof"}
    texts = {**with_secret(tmp_path), **{f"tidegate.security.proxy.{key}": text for key, text in names.items()}}
    proxy = proxy_of(texts)
    assert asked(proxy, ("Proof", SECRET), ("Remote-User", "ada"), ("Remote-Groups", "staff")) is not None
    assert asked(proxy, (USER, "ada"), (GROUPS, "admins")) is None, "headers of no meaning here"


def test_nothing_is_believed_unless_a_proxy_is_named(tmp_path: Path) -> None:
    assert TrustedProxy.of(Configuration.from_strings(options(tmp_path))) is None


def test_what_is_configured_badly_is_said(tmp_path: Path) -> None:
    good = with_secret(tmp_path)
    roles = "tidegate.security.proxy.roles"
    for texts, why in (
        ({k: text for k, text in good.items() if not k.endswith("users.file")}, "users.file is not set"),
        ({k: text for k, text in good.items() if k != roles}, "no group has a role"),
        ({**good, roles: "admins"}, "'admins' is not group:role"),
        ({**good, roles: "admins:owner"}, "'admins:owner' is not group:role"),
        ({**good, roles: "a:view;a:data"}, "a has two roles"),
        ({**options(tmp_path), "tidegate.security.proxy.fingerprint": "AB" * 32}, "no client shows a certificate"),
        ({**options(tmp_path), "tidegate.security.proxy.fingerprint": "AB"}, "is not a SHA-256 fingerprint"),
        (with_secret(tmp_path / "short", "short"), "at least 16 characters"),
        (with_secret(tmp_path / "open", mode=0o644), "other users of this machine can read this secret"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            TrustedProxy.of(Configuration.from_strings(texts))
