# A virtual environment in .venv from hash-pinned locks; everything else runs inside it.
#   make demo    the whole thing on this machine          make test    the tests that each change has to pass
#   make lint    format, style, types, borders            make bench   figures, beside pyarrow in memory
#   make docs    the site, in docs/_build/html            make release what is published, in dist/
#   make test-all  every test, in about two hours         make soak    what takes longer still
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.stamp-$(shell cat requirements/dev.lock pyproject.toml | cksum | cut -d' ' -f1)

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all bench lint format proto docs release lock soak clean

help:
	@sed -n 's/^# *//p' $(firstword $(MAKEFILE_LIST)) | head -n 5

install: $(STAMP)

# Rebuilt only when the lock or the project's declaration changed: the stamp's name is their checksum.
$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "tidegate needs Python 3.11, 3.12 or 3.13; name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	requirements/install .venv dev $(PYTHON)
	@rm -f .venv/.stamp-*
	@touch $@

demo: install
	$(BIN)/python examples/demo.py

lint: install
	.ci/lint

test: install
	.ci/lint
	.ci/test

test-all: install
	.ci/lint
	.ci/test-all

bench: install
	$(BIN)/python benchmarks/run.py

soak: install
	$(BIN)/python -m tests.sim.soak
	$(BIN)/python -m tests.differential_columns.soak
	$(BIN)/python -m tests.differential_tables.soak
	$(BIN)/python -m pytest -n 2 --hypothesis-profile=explore tests/property tests/fuzz
	$(BIN)/python -m uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/fuzz.lock
	$(BIN)/python -m tests.fuzz.soak
	$(BIN)/python -m pytest -m slow --ignore=tests/lakehouse
	.ci/versions spark

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: install
	$(BIN)/python proto/generate.py

docs: install
	$(BIN)/python docs/generate.py
	.ci/docs

release: install
	.ci/release

lock: install
	requirements/lock

clean:
	rm -rf build dist docs/_build docs/reference/api jobmanager/web/site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
