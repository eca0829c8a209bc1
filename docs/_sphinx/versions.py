"""The versions of the site that lie beside each other, and the page that leads to the newest.

docs/_build/html/index.html      leads to the newest
                 versions.js     the versions that are there; every page of every version reads it from beside its folder
                 0.1.0/          one version
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_FOLDER = re.compile(r"\d+\.\d+\.\d+([a-z]+\d+)?")
_LEADS_ON = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>tidegate</title>
<meta http-equiv="refresh" content="0; url={newest}/index.html">
<p><a href="{newest}/index.html">tidegate {newest}</a></p></html>
"""


def versions_in(site: Path) -> list[str]:
    """The folders of versions, newest first."""
    found = [folder.name for folder in site.iterdir() if _FOLDER.fullmatch(folder.name)]
    return sorted(found, key=lambda name: [int(part) for part in re.findall(r"\d+", name)], reverse=True)


def write_versions(site: Path) -> None:
    """Anew for what is in the folder now."""
    versions = versions_in(site)
    (site / "versions.js").write_text(f"window.tidegateVersions = {json.dumps(versions)};\n", encoding="utf-8")
    (site / "index.html").write_text(_LEADS_ON.format(newest=versions[0]), encoding="utf-8")


def on_build_finished(app: Sphinx, exception: Exception | None) -> None:
    """Sphinx's hook: only where the output is a folder named like a version."""
    folder = Path(app.outdir)
    if exception is None and app.builder.name == "html" and _FOLDER.fullmatch(folder.name):
        write_versions(folder.parent)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", on_build_finished)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
