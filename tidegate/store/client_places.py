"""Restricts the locations that clients may name: targets of savepoints, snapshots to restore, claim or remove, directories of jobs, and the files of
manifests that they name.

    text ─▶ a plain place? ─▶ links resolved ─▶ below a root? ─▶ ClientPlace, which is used from here on

Roots are named by the configuration of the JobManager's process, never by a job's. A place on this machine is compared with all symbolic links
resolved, and what is used afterwards is the resolved path below the root, so that a link that is changed later leads nowhere else. Of other
places the scheme, the host or bucket, and the path are compared.

``any_here``: besides what lies below the roots, clients may name every directory of this machine, and every bucket; the environment says which
host serves these. A host that a location names has to be the host of a root.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NewType
from urllib.parse import SplitResult, unquote, urlsplit

from tidegate.model.checkpoint import CheckpointManifest
from tidegate.model.errors import Misuse
from tidegate.store.locations import has_scheme, is_local, is_memory, normalized
from tidegate.store.state_files import handles_of, place_of

ClientPlace = NewType("ClientPlace", str)
"""A location that a client named and that clients may use."""

_BUCKETS = frozenset({"s3", "gs", "gcs"})
_BY_HOST = frozenset({"hdfs", "viewfs", "abfs", "abfss"})
_AZURE = frozenset({"abfs", "abfss"})
_BUCKET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OPTION = "tidegate.client-directories"


@dataclass(frozen=True, slots=True)
class ClientPlaces:
    """Checks that file locations which clients name lie in the allowed directories. ``roots``: these directories, as paths and URIs.

    All methods block. Error messages contain no query, user name or password of a URI.
    """

    roots: tuple[str, ...] = ()
    any_here: bool = True

    def place_of(self, location: str) -> ClientPlace:
        """Returns the place for a location, with symbolic links resolved. Raises ``Misuse`` for an unsafe location or one that is not below a root."""
        _check_plain(location)
        place = normalized(location)
        if is_memory(place):
            return ClientPlace(place)
        found = self._here(place) if is_local(place) else self._elsewhere(place)
        if found is None:
            raise Misuse(
                f"{place} is outside of the directories that clients of this cluster may name{self._known()}; name a place there, or add the directory to "
                f"{_OPTION} in the JobManager's configuration"
            )
        return ClientPlace(found)

    def check_manifest(self, manifest: CheckpointManifest, location: str) -> None:
        """Checks that the state files of a manifest are where its client may name files. Raises ``Misuse``."""
        for operator, handle in handles_of(manifest):
            if not handle.path:
                continue  # inline
            place = place_of(handle, location)
            try:
                if ".." in place.split("/"):
                    raise Misuse(f"the path {place} has a '..' in it")
                self.place_of(place)
            except Misuse as error:
                raise Misuse(
                    f"the _metadata of {location} is refused, since it names a state file of operator {operator.name!r} at a place that clients may not name: "
                    f"{error.message}"
                ) from None

    def _here(self, path: str) -> str | None:
        if self.any_here:
            return path
        real = os.path.realpath(path)
        for root in self.roots:
            if is_local(root):
                spelled = normalized(root)
                below = _below(real, os.path.realpath(spelled))
                if below is not None:
                    return os.path.join(spelled, below) if below else spelled
        return None

    def _elsewhere(self, place: str) -> str | None:
        parts = urlsplit(place)
        for root in self.roots:
            if not is_local(root) and not is_memory(root) and _covers(urlsplit(normalized(root)), parts):
                return place
        return place if self.any_here and not _names_a_host(parts) else None

    def _known(self) -> str:
        return f" (those below {', '.join(self.roots)})" if self.roots else ""


def with_roots(named: Iterable[str | None], *, any_here: bool) -> ClientPlaces:
    """Creates the check from the configured directories, of which some may be unset."""
    return ClientPlaces(tuple(dict.fromkeys(root for root in named if root)), any_here)


def _check_plain(location: str) -> None:
    """Checks that a location has no control characters, query, fragment, user or password: a query can redirect requests to another host. Raises
    ``Misuse``, which does not repeat secrets."""
    if "\0" in location or any(ord(character) < 0x20 for character in location):
        raise Misuse("the location has a control character in it; name a path or a URI")
    if not has_scheme(location):
        return
    try:
        parts = urlsplit(location)
        known = parts.scheme in _BUCKETS | _BY_HOST | {"file", "memory"}
        user = parts.username if parts.scheme in _AZURE else None  # a container: abfs://container@account...
        is_plain = not (parts.query or parts.fragment) and (
            "@" not in parts.netloc or bool(user and ":" not in parts.netloc)
        )
    except ValueError:
        raise Misuse(
            "the location is not a URI that can be read, since its host or its port is malformed; give a path, or a URI "
            "of file:, s3:, gs:, abfs: or hdfs:"
        ) from None
    if not known:
        raise Misuse(
            f"tidegate cannot open a location of scheme {parts.scheme!r}; known are paths, file:, s3:, gs:, abfs: and hdfs:"
        )
    if not is_plain:
        raise Misuse(
            f"a location of scheme {parts.scheme!r} with a query, a fragment, a user or a password is refused: "
            "name the place alone, and configure how it is reached "
            "in the environment of the cluster's processes"
        )
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise Misuse("a file: location with a host is refused; files of this machine are file:///path")
        if "\0" in unquote(parts.path):
            raise Misuse("the location has a control character in it; name a path or a URI")
    elif parts.scheme != "memory":
        _check_path(parts)


def _check_path(parts: SplitResult) -> None:
    if parts.scheme in _BUCKETS and not _BUCKET_NAME.fullmatch(parts.netloc):
        raise Misuse(
            f"a location of scheme {parts.scheme!r} begins with the name of a bucket, and nothing else: {parts.scheme}://bucket/path"
        )
    segments = unquote(parts.path).rstrip("/").split("/")[1:]
    if any(segment in ("", ".", "..") or "\\" in segment or not segment.isprintable() for segment in segments):
        raise Misuse(
            f"the location {parts.geturl()!r} is refused: its path has an empty part (//), '.', '..', a backslash or an unprintable character; "
            "write the path without them"
        )


def _below(path: str, root: str) -> str | None:
    """Returns the part of a path below a root; ``None`` when the path is not below it."""
    if path == root:
        return ""
    prefix = root if root.endswith("/") else f"{root}/"
    return path[len(prefix) :] if path.startswith(prefix) else None


def _covers(root: SplitResult, place: SplitResult) -> bool:
    is_same = (_service(root.scheme), root.netloc) == (_service(place.scheme), place.netloc)
    return is_same and _below(unquote(place.path).rstrip("/"), unquote(root.path).rstrip("/")) is not None


def _service(scheme: str) -> str:
    return "gs" if scheme == "gcs" else scheme


def _names_a_host(parts: SplitResult) -> bool:
    return parts.scheme not in _BUCKETS and parts.netloc not in ("", "default")
