"""Names under which the requirements and archives of a job are shipped (Flink: ``PythonDependencyManager``).

python-requirements/requirements.txt     ─▶ installed once on each machine, and put on ``sys.path``
python-requirements/packages.zip         ─▶ the directory that pip takes the packages from, without an index
python-archives/<target>/<file>          ─▶ unpacked into ``<target>`` below the working directory
"""

from __future__ import annotations

ARCHIVES = "python-archives"
REQUIREMENTS = "python-requirements/requirements.txt"
PACKAGES = "python-requirements/packages.zip"
