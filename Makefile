# make demo   index the Python standard library's documentation and serve it
# make test   lint, types, layers and tests, as CI runs them
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := retrieval indexing service evaluation training export swiftlet models experiments benchmarks tests
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PORT ?= 8080

.PHONY: demo test lint format tests constraints clean

demo: $(VENV)/base
	@$(BIN)/swiftlet demo --directory .demo --port $(PORT)

test: lint tests

lint: $(VENV)/dev
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

tests: $(VENV)/dev
	$(BIN)/python -m pytest -n 2 --dist loadgroup

format: $(VENV)/dev
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

# What serving and indexing need.
$(VENV)/base: pyproject.toml constraints.txt | $(VENV)/python
	$(INSTALL) --editable .
	@touch $@

# That, and what training, export, evaluation and the tests need; the search page is tested in Chromium.
$(VENV)/dev: pyproject.toml constraints.txt | $(VENV)/python
	@sh .ci/system-packages $(PYTHON) chromium
	$(INSTALL) torch
	$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/base

$(VENV)/python:
	@sh .ci/system-packages $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	@touch $@

constraints: $(VENV)/dev
	@{ sed -n '/^#/p' constraints.txt; $(BIN)/python -m pip freeze --exclude-editable \
		| sed 's/+cpu$$//'; } > constraints.new && mv constraints.new constraints.txt

clean:
	rm -rf $(VENV) .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
