# make demo   index the Python standard library's documentation and serve it
# make loadtest   how much the service can do, and how fast it answers then
# make image  the service as a Docker image; make test-image builds and tests one
# make test   lint, types, layers and tests, as CI runs them
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := retrieval indexing service evaluation training export swiftlet models experiments benchmarks image loadtests tests
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PORT ?= 8080
# Of `make loadtest`: several indexes may be named; LOADTEST takes whatever `python -m loadtests` does.
INDEX ?=
QUERIES ?= loadtests/demo-queries.txt
RATES ?= 20 50 80 95 150
DURATION ?= 30
OUT ?= runs/loadtest
LOADTEST ?=

# Of `make image`: DOCKER_BUILD takes whatever `docker build` does, such as --build-arg INDEX=index.
TAG ?= swiftlet
BASE_IMAGE ?= python:3.11-slim-bookworm
NETWORK ?=
DOCKER_BUILD ?=

.PHONY: image test-image demo test loadtest lint format tests constraints clean

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

image:
	@image/build $(TAG) $(BASE_IMAGE) "$(NETWORK)" $(DOCKER_BUILD)

test-image: $(VENV)/dev image
	IMAGE=$(TAG) BASE_IMAGE=$(BASE_IMAGE) $(BIN)/python -m pytest tests/image \
		tests/deploy/test_in_docker.py

loadtest: $(VENV)/loadtest
	$(BIN)/python -m loadtests $(foreach index,$(INDEX),--index $(index)) --queries $(QUERIES) \
		--rates $(RATES) --duration $(DURATION) --out $(OUT) $(LOADTEST)

# What serving and indexing need.
$(VENV)/base: pyproject.toml constraints.txt | $(VENV)/python
	$(INSTALL) --editable .
	@touch $@

# That, and what load tests need.
$(VENV)/loadtest: pyproject.toml constraints.txt | $(VENV)/python
	$(INSTALL) --editable '.[loadtest]'
	@touch $@ $(VENV)/base

# That, and what training, export, evaluation and the tests need; the search page is tested in Chromium,
# deploy/ with Compose and Prometheus.
$(VENV)/dev: pyproject.toml constraints.txt | $(VENV)/python
	@sh .ci/system-packages $(PYTHON) chromium docker-compose prometheus
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
