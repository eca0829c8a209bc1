"""Masking of secrets in texts: which options are secret, and how they are hidden in what people read.

A text that leaves a process - a line of its log, an error, an answer of REST, a message of the command line - is masked where it is made:
by `ErrorInfo`, by the formatters of logs, and where answers are encoded. Hidden are

    known values       those of sensitive options, of this process and of its jobs (`Secrets.learn`), of at least 6 characters
    user:password@     in URIs, the password
    key=value          and `'key' = 'value'`, `"key": "value"`, where the key is sensitive
    private keys       as PEM
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from tidegate.model.values import Json

HIDDEN = "******"
"""The replacement of a secret, as in Flink."""

LEAST_CHARACTERS = 6
"""The length from which values are searched for in texts. Chosen: shorter ones would hide other words."""

MOST_VALUES = 4096
"""How many values a process remembers. Chosen: beyond it the oldest are forgotten."""

_SENSITIVE = (
    "password", "secret", "fs.azure.account.key", "apikey", "api-key", "auth-params", "service-key", "token",
    "basic-auth", "jaas.config", "http-headers", "access-key", "access.key", "credential", "zookeeper.client.authorization",
)  # fmt: skip
"""Parts of keys whose values are not shown (Flink: ``GlobalConfiguration.isSensitive``, and some more)."""

_SETTINGS = re.compile(r"true|false|\d+ ?(ms|s|m|min|h|d|kb|mb|gb)?|\d+ (second|minute|hour|day)s?", re.IGNORECASE)
"""A pattern of values that are not secret although their option's name looks sensitive, such as how long a token is valid. A long text of digits is a
password."""

_WORDS = "|".join(re.escape(part).replace(r"\-", "[-_]?").replace(r"\.", "[._]") for part in _SENSITIVE)
_QUOTED_KEY = re.compile(
    rf"""(?P<head>(?:{_WORDS})[\w.-]*(?P<quote>['"])\s*[:=]\s*(?P<with>['"]))(?:\\.|(?P=with){{2}}|(?!(?P=with)).)+(?=(?P=with))""",
    re.IGNORECASE,
)
_BARE_KEY = re.compile(
    rf"""(?P<head>(?:{_WORDS})[\w.-]*=)(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?!\*{{6}})[^\s&;,'"\[)\]}}][^\s&;,'")\]}}]*)""",
    re.IGNORECASE,
)
_USER_INFO = re.compile(r"(?P<head>://[^\s/@:'\"\[]*:)(?!\d+[/?#,])[^\s@'\"]+@")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^\"']*?-----END [A-Z ]*PRIVATE KEY-----|[A-Za-z0-9+/=\s\\]*)"
)
_IN_QUOTES = re.compile(r"""["']([^"']+)["']""")
_WHOLE_WORDS = tuple(part.replace("-", "").replace(".", "") for part in _SENSITIVE)


def is_sensitive(key: str) -> bool:
    """Returns whether the value of an option is a secret, by its name."""
    return any(part in key.lower() for part in _SENSITIVE)


class Secrets:
    """The secret values that a process knows, which it masks in texts. One for each process: `SECRETS`."""

    def __init__(self) -> None:
        self._values: dict[str, None] = {}
        self._longest_first: tuple[str, ...] = ()

    def learn(self, settings: Mapping[str, str]) -> None:
        """Remembers the values of sensitive keys as secrets, and quoted texts within them, as in ``sasl.jaas.config``."""
        found = [
            part
            for key, value in settings.items()
            if is_sensitive(key)
            for part in (value, *(_IN_QUOTES.findall(value) if "=" in value else ()))
        ]
        self.learn_values(found)

    def learn_values(self, values: Sequence[str]) -> None:
        """Remembers values as secrets, if they are long enough."""
        new = [v for v in values if _is_secret(v) and v not in self._values]
        if not new:
            return
        self._values.update(dict.fromkeys(new))
        for oldest in list(self._values)[: max(0, len(self._values) - MOST_VALUES)]:
            del self._values[oldest]
        self._longest_first = tuple(sorted(self._values, key=len, reverse=True))

    def masked(self, text: str) -> str:
        """Replaces secrets in a text; masking it again changes nothing."""
        for value in self._longest_first:
            if value in text:
                text = text.replace(value, HIDDEN)
        if "PRIVATE KEY-----" in text:
            text = _PRIVATE_KEY.sub(HIDDEN, text)
        if "@" in text and "://" in text:
            text = _USER_INFO.sub(rf"\g<head>{HIDDEN}@", text)
        if _names_a_secret(text):
            text = _QUOTED_KEY.sub(rf"\g<head>{HIDDEN}", text)
            text = _BARE_KEY.sub(rf"\g<head>{HIDDEN}", text)
        return text

    def masked_bytes(self, content: bytes) -> bytes:
        """Replaces known secrets in bytes; for files, which are long."""
        for value in self._longest_first:
            encoded = value.encode("utf-8", "surrogatepass")
            if encoded in content:
                content = content.replace(encoded, HIDDEN.encode("ascii"))
        return content

    def encoded(self, answer: Json) -> str:
        """Encodes an answer as JSON, with texts masked and values of sensitive keys hidden."""
        text = _compact(answer)
        return _compact(self._masked_json(answer)) if self._may_show(text) else text

    def _may_show(self, text: str) -> bool:
        """Returns whether a JSON text must be checked value by value; most need not, and checking takes longer than encoding."""
        return (
            ("@" in text and "://" in text)
            or "PRIVATE KEY-----" in text
            or any(value in text or _compact(value)[1:-1] in text for value in self._longest_first)
            or _names_a_secret(text)
        )

    def _masked_json(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.masked(value)
        if isinstance(value, Mapping):
            return {
                key: HIDDEN if isinstance(one, str) and one and is_sensitive(key) else self._masked_json(one)
                for key, one in value.items()
            }
        return [self._masked_json(one) for one in value] if isinstance(value, (list, tuple)) else value


SECRETS = Secrets()
"""The secrets of this process: of its configuration (``tidegate.aio.settings``), and of jobs that it runs or manages."""


def _is_secret(value: str) -> bool:
    return (
        len(value) >= LEAST_CHARACTERS
        and value != HIDDEN
        and (value.isdigit() or _SETTINGS.fullmatch(value.strip()) is None)
    )


def _names_a_secret(text: str) -> bool:
    """Returns whether a sensitive key may be in the text: a quick test with false positives."""
    lower = text.lower()
    if "=" not in lower and ":" not in lower:
        return False
    bare = lower.replace("-", "").replace("_", "").replace(".", "")
    return any(word in bare for word in _WHOLE_WORDS)


def _compact(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
