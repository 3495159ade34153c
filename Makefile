# Each target does everything that it needs on a fresh machine: it makes .venv, installs, and runs.
# It installs again only if pyproject.toml or constraints.txt changed, or another TileLang is asked for.

# The Python that .venv is made from, where there is none yet.
PYTHON ?= python3
# For pytest: ARGS='-k softmax'
ARGS ?=
# A release of TileLang, or `nightly`, with the page that has its builds: TileLang's installation guide names it.
TILELANG ?= $(shell sed -n 's/^tilelang==//p' constraints.txt)
TILELANG_NIGHTLY_INDEX ?=
# What pip installs where .venv, or with an NVIDIA driver the host, has no torch; it may carry options of pip.
TORCH ?= torch==2.13.0
# Whether there is an NVIDIA driver, yes or no; found out if empty.
DRIVER ?=

BIN := .venv/bin
INSTALLED := .venv/.installed-$(TILELANG)

.DEFAULT_GOAL := help
.PHONY: help venv install correctness test lint format types workflows clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## /  \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16
	@echo
	@echo "  make correctness ARGS='-k softmax'    options for pytest"
	@echo "  make test TILELANG=0.1.14             or nightly, with TILELANG_NIGHTLY_INDEX=PAGE"
	@echo "  make venv PYTHON=python3.12           another Python"

export PYTHON TILELANG TILELANG_NIGHTLY_INDEX TORCH DRIVER

venv:  ## only make .venv, so that a torch of your choice can be put into it first
	@.ci/setup venv

install: $(INSTALLED)  ## make .venv and install the suite and its tools

$(INSTALLED): pyproject.toml constraints.txt
	@.ci/setup install

correctness: $(INSTALLED)  ## every kernel against its reference: on a GPU, or else on the CPU simulator
	$(BIN)/python -m pytest -m correctness $(ARGS)

test: $(INSTALLED)  ## everything that this machine can run
	$(BIN)/python -m pytest $(ARGS)

lint: $(INSTALLED)  ## ruff, changing nothing
	$(BIN)/ruff check
	$(BIN)/ruff format --check

format: $(INSTALLED)  ## ruff, mending what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: $(INSTALLED)  ## mypy
	$(BIN)/mypy

workflows: $(INSTALLED)  ## the files in .github/workflows, against the schema that check-jsonschema brings
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml

clean:  ## remove .venv and what builds and test runs leave behind
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
