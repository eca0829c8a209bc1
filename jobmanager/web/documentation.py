"""Serves the documentation at ``/docs/``: the site that ``make docs`` builds, from a wheel or from the repository.

wheel of ``make release``     tidegate/jobmanager/web/site      the version that runs
repository                    docs/_build/html                  what was built last, also after the start
"""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

from tidegate.jobmanager.rest.http.timeouts import Response
from tidegate.jobmanager.web.files import INDEX, FileAnswers, FolderFiles

FOLDER = "/docs"
_HERE = Path(__file__).resolve().parent
PLACES = (_HERE / "site", _HERE.parent.parent / "docs" / "_build" / "html")
"""Directories of a built site, the preferred one first."""
_HEADERS = {  # a theme's scripts stand in its pages; they reach nothing but this origin
    "content-security-policy": (
        "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
}
_NOT_BUILT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>tidegate: documentation</title>
<h1>The documentation is not built here</h1>
<p>In the repository, <code>make docs</code> builds it into <code>docs/_build/html</code>; this page shows it from then on.
The same pages are Markdown below <code>docs/</code>. A wheel of <code>make release</code> brings it along.</p></html>
"""


class Documentation:
    """Serves files of a built site, found by their whole names; the list is renewed when the site is built again."""

    def __init__(self, places: tuple[Path, ...] = PLACES) -> None:
        self._places = places
        self._built_ns = 0
        self._files: FileAnswers | None = None

    def answer(self, request: web.Request, name: str) -> web.Response | None:
        """Answers a path below ``/docs/``, that of a folder with its index; ``None`` when the site has no such page."""
        files = self._site()
        if files is None:
            return Response(status=404, text=_NOT_BUILT, content_type="text/html", headers=_HEADERS)
        if not name or name.endswith("/"):
            name += INDEX
        return files.answer(request, name) if files.has(name) else None

    def _site(self) -> FileAnswers | None:
        for place in self._places:
            try:
                built_ns = (place / INDEX).stat().st_mtime_ns
            except OSError:
                continue
            if self._files is None or built_ns != self._built_ns:
                self._built_ns = built_ns
                self._files = FileAnswers(FolderFiles(place), _HEADERS, keep=False)
            return self._files
        return None
