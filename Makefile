# Each target does everything that it needs on a fresh machine: it makes .venv, installs, and runs.
# It installs again only when pyproject.toml or constraints.txt changed, or another TileLang is asked for.

PYTHON   ?= python3
ARGS     ?=
EXTRAS   ?= dev
TORCH    ?= torch==2.13.0
TILELANG ?= $(shell sed -n 's/^tilelang==//p' constraints.txt)
# As TileLang's installation guide has it.
TILELANG_INDEX ?= https://tile-ai.github.io/whl/nightly
# yes or no; found out if empty.
DRIVER   ?=

BIN       := .venv/bin
INSTALLED := .venv/.installed-$(TILELANG)

.DEFAULT_GOAL := help
.PHONY: help venv install correctness test lint format types clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14
	@echo
	@echo "Variables: PYTHON=python3.12 (to make .venv from), ARGS='-k softmax' (for pytest),"
	@echo "TILELANG=0.1.14 or TILELANG=nightly, TORCH='torch==2.12.0' (where .venv has no torch yet)"

export PYTHON TORCH TILELANG TILELANG_INDEX EXTRAS DRIVER

venv:  ## only make .venv, so that a torch of your choice can be put into it first
	@.ci/setup venv

install: $(INSTALLED)  ## make .venv and install the suite and its tools

$(INSTALLED): pyproject.toml constraints.txt
	@.ci/setup install

correctness: $(INSTALLED)  ## every kernel against its reference: on a GPU, or else on the CPU simulator
	$(BIN)/python -m pytest -m correctness $(ARGS)

test: $(INSTALLED)  ## everything that this machine can run
	$(BIN)/python -m pytest $(ARGS)

lint: $(INSTALLED)  ## ruff: lint and format, without changing a file
	$(BIN)/ruff check
	$(BIN)/ruff format --check

format: $(INSTALLED)  ## ruff: format and mend what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: $(INSTALLED)  ## mypy
	$(BIN)/mypy

clean:  ## remove .venv and what builds and test runs leave behind
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
