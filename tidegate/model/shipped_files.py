"""The file names under which a job's requirements and archives are shipped (Flink: ``PythonDependencyManager``).

python-requirements/requirements.txt     ─▶ installed once on each machine, and put on ``sys.path``
python-requirements/packages.zip         ─▶ the directory that pip takes the packages from, without an index
python-archives/<target>/<file>          ─▶ unpacked into ``<target>`` below the working directory

What executors of a Spark cluster need themselves is shipped by Spark (``spark.archives``), and made by ``tidegate package``.
"""

from __future__ import annotations

ARCHIVES = "python-archives"
REQUIREMENTS = "python-requirements/requirements.txt"
PACKAGES = "python-requirements/packages.zip"

PACKED = "tidegate-packages"
"""The name behind ``#`` of an entry of ``spark.archives``: the folder in an executor's working directory in which this package is."""


def has_packages(archives: str) -> bool:
    """Returns whether an entry of ``spark.archives`` is unpacked there."""
    return any(entry.strip().endswith(f"#{PACKED}") for entry in archives.split(","))
