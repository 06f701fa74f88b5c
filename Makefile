# Two commands do everything: `make demo` runs the main job, `make test` passes the tests. Both install what they need.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
CACHE ?= $(if $(TORCHSPEC_CACHE),$(TORCHSPEC_CACHE),$(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/torchspec)

.PHONY: help setup system demo test test-fast lint check clean

help:
	@echo "make demo   set up, compile specs/quickstart.tspec, measure torch 2.13.0 against 2.14.1, write and verify the memo"
	@echo "make test   set up and run every test"
	@echo "make lint   ruff, mypy --strict, import-linter"

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

system: $(STAMP)
	@.ci/system "$(BIN)/python"

setup: $(STAMP) system

demo: setup
	@.ci/demo "$(BIN)"

test: setup
	@.ci/test "$(BIN)"

test-fast: setup
	$(BIN)/python -m pytest -q -m "not torch and not slow and not browser"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
