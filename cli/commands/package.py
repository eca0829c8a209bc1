"""`tidegate package`: packs what executors need into one archive for `spark.archives`."""

from __future__ import annotations

from pathlib import Path

import click

from tidegate.cli.errors import reporting
from tidegate.wire.versions import PYTHON_VERSION

_MIB = 1 << 20
"""The unit of the size that is shown, in bytes."""


@click.command()
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="This package and what it requires; may be repeated. Default: all that are installed.",
)
@click.option("--without", multiple=True, metavar="NAME", help="Not this package; may be repeated.")
@click.argument("archive", metavar="ARCHIVE", type=click.Path(dir_okay=False, path_type=Path))
@reporting
def package(only: tuple[str, ...], without: tuple[str, ...], archive: Path) -> None:
    """Pack what is installed here, for the executors of a Spark cluster.

    ARCHIVE is a .tar.gz, which the option `spark.archives` brings to each executor. It contains tidegate and the packages installed with it, without
    an interpreter and without Spark: executors need the same minor version of Python, and nothing else of yours."""
    from tidegate.cli.packages import pack
    from tidegate.model.shipped_files import PACKED

    packed = pack(archive, only, without)
    click.echo(
        f"{archive}: {len(packed.names)} packages for Python {PYTHON_VERSION} on {packed.platform}, {packed.size_bytes / _MIB:.0f} MiB.\n"
        f"Start TaskManagers with -D spark.archives={archive.absolute()}#{PACKED}"
    )
