# `make up` and `make test` are all that a fresh Linux machine needs: Python 3.11 or newer, git and make, no compiler.
# Every step can be repeated; stamps in the environment make a finished one free.

PYTHON ?= python3
VENV ?= .venv
# Tests at once. The heavier ones run real clusters, so more than there are cores gains nothing.
JOBS ?= 2
# Flags of `runstate up`, for example: make up UP="--nodes 1 --port 8080"
UP ?=
# Arguments of pytest, for example: make test TESTS=tests/cluster
TESTS ?=
# Arguments of the benchmark.
BENCH ?=

BIN := $(VENV)/bin
# Wheels alone: a machine without a compiler then fails with a name and not in the middle of a build. The one package
# that comes as source is pure Python.
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip --disable-pip-version-check --quiet install --only-binary=:all: --no-binary=pysyncobj

.PHONY: help up test check format generate bench clean
.DEFAULT_GOAL := help

help:
	@echo "make up        start a cluster of three nodes on this machine (flags: UP=\"--nodes 1\")"
	@echo "make test      everything that is checked, then all tests (some: TESTS=tests/cluster)"
	@echo "make check     format, lint, types, import contracts, generated files"
	@echo "make format    put the code into the house format, and mend what lint can"
	@echo "make generate  write the generated files"
	@echo "make bench     measure a cluster on this machine"
	@echo "make clean     remove the environment and what builds leave; never data"

up: $(VENV)/.installed
	@exec $(BIN)/runstate up $(UP)

test: check
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup $(TESTS)

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m ops.generate --check

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format .

generate: $(VENV)/.installed-dev
	$(BIN)/python -m ops.generate

bench: $(VENV)/.installed-dev
	$(BIN)/python -m ops.bench.local $(BENCH)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "$(PYTHON) is $$($(PYTHON) --version 2>/dev/null || echo missing), and Python 3.11 or newer is needed."; \
		found=$$(for p in python3.13 python3.12 python3.11; do command -v $$p; done | tr '\n' ' '); \
		echo "Name one, for example: make $(MAKECMDGOALS) PYTHON=python3.12 (found here: $${found:-none})"; \
		exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV) || { \
		echo "$(PYTHON) cannot make an environment. On Debian and Ubuntu: apt-get install python3-venv"; \
		exit 1; }
	@touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml ops/pinned.txt
	@echo "installing what runs"
	@$(PIP) --no-deps --require-hashes -r ops/pinned.txt
	@$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "installing what checks and tests"
	@$(PIP) --editable '.[dev]'
	@touch $@
