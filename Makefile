# Everything sets itself up: a fresh machine needs Python 3.11 or later with venv, a C compiler and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Every process of a test would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-external lint format bench fingerprints docs docs-tables release clean

help:
	@echo "make demo           show the main job"
	@echo "make test           run the tests"
	@echo "make test-external  run the whole external suites and refresh their committed result tables"
	@echo "make lint           ruff and pyright, package and tests"
	@echo "make format         rewrite the sources in the project's form"
	@echo "make bench          print every budget with what was measured"
	@echo "make fingerprints   reproduce the published figures of real chips"
	@echo "make docs           build the documentation site into site/"
	@echo "make docs-tables    write the generated reference pages"
	@echo "make release        build sdist and wheel, audit, install and try them; they are then in dist/"

demo: $(VENV)/run.stamp
	@$(BIN)/aneforge demo

# One worker per core: threads of PyTorch and BLAS within them would only wait for one another.
test test-external: export OMP_NUM_THREADS = 1
test test-external: export OPENBLAS_NUM_THREADS = 1

test: $(VENV)/test.stamp
	$(BIN)/pytest -n auto --dist worksteal --durations=20

test-external: $(VENV)/test.stamp
	$(BIN)/pytest -n auto --dist worksteal --refresh-results tests/external

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --threads 2

format: $(VENV)/dev.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/bench.stamp
	@for benchmark in benchmarks/*.py; do $(BIN)/python $$benchmark || exit 1; done

fingerprints: $(VENV)/run.stamp
	$(BIN)/python tools/fingerprints.py

docs: docs-tables $(VENV)/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-tables: $(VENV)/docs.stamp
	$(BIN)/python tools/reference_pages.py

release: $(VENV)/release.stamp
	$(BIN)/python tools/release.py

clean:
	rm -rf $(VENV) site build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	rm -f src/aneforge/engine/kernels/aneforge_kernels.* src/aneforge/runtime/dispatch/libane_open.*

# One environment; each stamp adds what its targets need to it, and builds the C libraries anew if their sources changed.

# Modules are compiled when they are first imported: most of what the large packages hold never is.
INSTALL := $(BIN)/pip install --quiet --no-compile --editable

BUILT_FROM := pyproject.toml hatch_build.py tools/native_build.py $(wildcard src/aneforge/engine/kernels/native/*) \
	$(wildcard src/aneforge/runtime/dispatch/native/*)

$(VENV)/run.stamp: $(BUILT_FROM) | $(VENV)/bin/python
	$(INSTALL) .
	@touch $@

$(VENV)/test.stamp: $(BUILT_FROM) | $(VENV)/bin/python
	$(INSTALL) '.[test]'
	@touch $@

$(VENV)/bench.stamp: $(BUILT_FROM) | $(VENV)/bin/python
	$(INSTALL) '.[bench,onnx]'
	@touch $@

$(VENV)/docs.stamp: $(BUILT_FROM) | $(VENV)/bin/python
	$(INSTALL) '.[docs]'
	@touch $@

$(VENV)/release.stamp: $(BUILT_FROM) | $(VENV)/bin/python
	$(INSTALL) '.[release]'
	@touch $@

# What the others install is part of it.
$(VENV)/dev.stamp: $(BUILT_FROM) | $(VENV)/bin/python
	$(INSTALL) '.[dev]'
	@touch $(VENV)/run.stamp $(VENV)/test.stamp $(VENV)/bench.stamp $(VENV)/docs.stamp $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "aneforge needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' \
		|| { echo "$(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
