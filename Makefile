# Everything below works on a bare clone with Python >= 3.11 and a package index.

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2

BIN := $(VENV)/bin
# -qq prints errors only.
PIP_INSTALL := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -qq -c constraints.txt
# One thread for each test worker: the workers are the parallelism.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# Stamps: a re-install happens only when one of INPUTS is newer.
INPUTS    := pyproject.toml constraints.txt
STAMP     := $(VENV)/.installed
STAMP_DEV := $(VENV)/.installed-dev
STAMP_DOC := $(VENV)/.installed-docs

# The lowest supported versions have an environment of their own. What LOWEST names replaces a
# bound, where no wheel of it is at hand: make test-lowest LOWEST=torch==2.13.0
VENV_LOW  := .venv-lowest
STAMP_LOW := $(VENV_LOW)/.installed
LOWEST    ?=

.DEFAULT_GOAL := help
.PHONY: help test lint types imports workflows pytest coverage test-long test-lowest demo bench docs \
	docs-links dist format clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' \
		| awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

# One after the other, cheap checks first, also under make -j.
test: $(STAMP_DEV) ## set up .venv and run every check: ruff, mypy, import-linter, schemas, pytest
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory types
	@$(MAKE) --no-print-directory imports
	@$(MAKE) --no-print-directory workflows
	@$(MAKE) --no-print-directory pytest

lint: $(STAMP_DEV) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP_DEV) ## mypy, strict, on src/legs
	$(BIN)/mypy

imports: $(STAMP_DEV) ## the direction of imports
	$(BIN)/lint-imports

# Schemas that come with check-jsonschema: no network.
SCHEMA := $(BIN)/check-jsonschema -q --builtin-schema

workflows: $(STAMP_DEV) ## workflows, forms and settings of hosts against their schemas
	$(SCHEMA) vendor.github-workflows .github/workflows/*.yml
	$(SCHEMA) vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/idea.yml
	$(SCHEMA) vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA) vendor.dependabot .github/dependabot.yml
	$(SCHEMA) vendor.readthedocs .readthedocs.yaml
	$(SCHEMA) vendor.citation-file-format CITATION.cff

pytest: $(STAMP_DEV) ## tests and doctests
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n $(JOBS)

coverage: $(STAMP_DEV) ## the tests, and which lines of src/legs they run, also as build/coverage.xml
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n $(JOBS) --cov --cov-report term \
		--cov-report xml:build/coverage.xml --cov-report html:build/coverage

test-long: $(STAMP_DEV) ## the tests that take minutes
	$(BIN)/python -m pytest -m long

test-lowest: $(STAMP_LOW) ## tests against the lowest supported versions, in .venv-lowest
	$(ONE_THREAD) $(VENV_LOW)/bin/python -m pytest -q -n $(JOBS) -p no:cacheprovider

demo: $(STAMP) ## set up .venv and run `legs demo`
	$(BIN)/legs demo

bench: $(STAMP_DEV) ## speed and memory
	$(BIN)/python -m benchmarks.plain

docs: $(STAMP_DOC) ## build the documentation, examples run, into build/docs; a warning is an error
	$(ONE_THREAD) $(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "Open build/docs/index.html"

docs-links: docs ## check all links of the documentation; those to other hosts are listed
	$(BIN)/python docs/check_links.py build/docs

dist: $(STAMP_DEV) ## build sdist and wheel into dist, and check their metadata
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

format: $(STAMP_DEV) ## let ruff fix and format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove .venv, caches and build outputs
	rm -rf $(VENV) $(VENV_LOW) build dist docs/gallery .mypy_cache .pytest_cache .ruff_cache .hypothesis \
		.import_linter_cache .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "torch-legs needs Python 3.11 or newer, and '$(PYTHON)' is not it:" \
			"$$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; \
		exit 1; }
	@echo "Making $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(STAMP): $(INPUTS) | $(BIN)/python
	@echo "Installing torch-legs and its extras into $(VENV) (a few minutes the first time)"
	@$(PIP_INSTALL) -e '.[all]'
	@touch $@

# The development set holds all that $(STAMP) stands for.
$(STAMP_DEV): $(INPUTS) | $(BIN)/python
	@echo "Installing torch-legs, its extras and the development tools into $(VENV)" \
		"(a few minutes the first time)"
	@$(PIP_INSTALL) -e '.[all,dev]'
	@touch $(STAMP) $@

$(STAMP_DOC): $(INPUTS) | $(BIN)/python
	@echo "Installing torch-legs, its extras and what builds the documentation into $(VENV)" \
		"(a few minutes the first time)"
	@$(PIP_INSTALL) -e '.[all,docs]'
	@touch $(STAMP) $@

# Test tools are the newest: only what the package itself needs is the lowest.
$(STAMP_LOW): pyproject.toml tests/lowest.py
	@echo "Installing the lowest supported versions into $(VENV_LOW) (a few minutes)"
	@$(PYTHON) -m venv --clear $(VENV_LOW)
	@$(VENV_LOW)/bin/python tests/lowest.py $(LOWEST) > $(VENV_LOW)/lowest.txt
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(VENV_LOW)/bin/python -m pip install -qq \
		-c $(VENV_LOW)/lowest.txt -e '.[all]' hypothesis networkx pytest pytest-xdist
	@touch $@
