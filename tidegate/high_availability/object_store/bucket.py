"""Reads, conditionally writes and lists objects below a prefix of a bucket, with obstore.

Credentials, region and endpoint are those of the environment (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ...), as for checkpoints.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tidegate.high_availability.object_store.lease import Version
from tidegate.high_availability.port import Unavailable
from tidegate.model.errors import ConfigurationError

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
    from obstore.store import GCSStore, S3Store
except ImportError as error:
    raise ConfigurationError(
        f"high-availability.type object-store needs obstore: pip install 'tidegate[object-store]' ({error})"
    ) from error

if TYPE_CHECKING:
    from obstore import UpdateVersion
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

SCHEMES = ("s3", "gs")
_RETRIES = 2
"""The retries within one request, of answers such as 503. Few, since the caller reads the object again anyway."""
_CONNECT_S = 3.0
"""The timeout of a connection to the bucket, in seconds. Chosen, not measured."""


@dataclass(frozen=True, slots=True)
class Found:
    """An object as it was read, with the version that a conditional write names."""

    content: bytes
    version: Version
    modified: datetime
    """When the object was last written, by the clock of the store."""


class Bucket:
    """Objects below a prefix of a bucket. All methods block, and raise ``Unavailable``. A write that raised may have happened, or may happen later."""

    def __init__(self, store: ObjectStore, prefix: str, url: str) -> None:
        """Takes an object store. ``prefix``: below which all objects are. ``url``: the address for messages."""
        self._store = store
        self._prefix = prefix
        self.url = url

    def place(self, name: str) -> str:
        return f"{self.url}/{name}"

    def read(self, name: str) -> Found | None:
        with self._requesting("read", name):
            try:
                answer = obstore.get(self._store, self._path(name))
            except FileNotFoundError:
                return None
            version = Version(answer.meta["e_tag"], answer.meta["version"])
            return Found(bytes(answer.bytes()), version, answer.meta["last_modified"])

    def write(self, name: str, content: bytes, expected: Version | None) -> Version | None:
        """Writes an object if it has the expected version, or, for ``None``, if it does not exist. Returns its new version; ``None`` when the write was
        refused."""
        with self._requesting("write", name):
            try:
                done = obstore.put(
                    self._store,
                    self._path(name),
                    content,
                    mode="create" if expected is None else _update(expected),
                    use_multipart=False,
                )
            except (AlreadyExistsError, PreconditionError):
                return None
            except FileNotFoundError as error:
                if expected is not None:
                    return None  # the object is gone
                raise Unavailable(
                    f"cannot write {self.place(name)}: there is no such bucket; make it first ({_first_line(error)})"
                ) from None
            return Version(done["e_tag"], done["version"])

    def put(self, name: str, content: bytes) -> None:
        """Writes an object unconditionally."""
        with self._requesting("write", name):
            obstore.put(self._store, self._path(name), content, use_multipart=False)

    def delete(self, name: str) -> None:
        """Removes an object; it may be missing."""
        with self._requesting("remove", name):
            try:
                obstore.delete(self._store, self._path(name))
            except FileNotFoundError:
                return

    def names(self, folder: str) -> dict[str, datetime]:
        """Returns the names of the objects in a folder, with the time of their last write by the clock of the store."""
        path = self._path(folder)
        with self._requesting("list", folder):
            found = obstore.list_with_delimiter(self._store, f"{path}/")
            return {entry["path"].rpartition("/")[2]: entry["last_modified"] for entry in found["objects"]}

    def _path(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    @contextmanager
    def _requesting(self, what: str, name: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            raise Unavailable(f"cannot {what} {self.place(name)}: {_first_line(error)}") from None


def _update(expected: Version) -> UpdateVersion:
    """Converts a version for obstore, which requires that fields without a value are absent."""
    version: UpdateVersion = {}
    if expected.e_tag is not None:
        version["e_tag"] = expected.e_tag
    if expected.version is not None:
        version["version"] = expected.version
    return version


def open_bucket(url: str, answer_s: float) -> Bucket:
    """Opens a bucket without a request. ``answer_s``: the timeout of one request. Raises ``ConfigurationError``."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.netloc:
        known = " or ".join(f"{scheme}://BUCKET/PATH" for scheme in SCHEMES)
        raise ConfigurationError(f"{url} is not the address of a bucket; write {known}")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    limits: ClientConfig = {
        "allow_http": endpoint is not None and endpoint.startswith("http://"),
        "timeout": timedelta(seconds=answer_s),
        "connect_timeout": timedelta(seconds=min(_CONNECT_S, answer_s)),
    }
    retries: RetryConfig = {"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=answer_s)}
    try:
        store: ObjectStore
        if parts.scheme == "gs":
            store = GCSStore(parts.netloc, client_options=limits, retry_config=retries)
        elif endpoint is None:
            store = S3Store(parts.netloc, client_options=limits, retry_config=retries)
        else:
            store = S3Store(parts.netloc, endpoint=endpoint, client_options=limits, retry_config=retries)
    except (BaseError, OSError, ValueError) as error:
        raise ConfigurationError(f"cannot open {url}: {_first_line(error)}") from None
    return Bucket(store, parts.path.strip("/"), url.rstrip("/"))


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
