# make demo   index the Python standard library's documentation and serve it
# make loadtest   measure how many searches a second the service answers, and their latency
# make image  build the service as a Docker image; make test-image builds and tests one
# make dist   build and check the sdist and the wheel; make release VERSION=0.2.0 makes a release
# make test   lint, types, layers and the tests that are cheap
# make check  the tests that are dear: pages, servers, environments, load
# make docs   build the documentation as a site in build/site
# make soak   the tests that take minutes; make dear runs these and those of `make check`, as CI does
# make again  run only the tests that failed last, one at a time
# make crash HOURS=1  walk all points at which a crash or a fault may strike, then random histories
# make explore   property tests with new random examples
# make fuzz HOURS=1   the same for the readers of files, in turns until the hours are over
PYTHON ?= python3
# Otherwise each process of a test compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
BIN := $(VENV)/bin
SOURCES := swiftlet service training export deploy experiments benchmarks loadtests measuring docs/site tests
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PORT ?= 8080
# For `make loadtest`: INDEX may name several indexes; LOADTEST takes options of `python -m loadtests`.
INDEX ?=
QUERIES ?= loadtests/demo-queries.txt
RATES ?= 20 50 80 95 150
DURATION ?= 30
OUT ?= runs/loadtest
LOADTEST ?=

# For `make image`: DOCKER_BUILD takes options of `docker build`, such as --build-arg INDEX=index.
TAG ?= swiftlet
BASE_IMAGE ?= python:3.11-slim-bookworm
NETWORK ?=
DOCKER_BUILD ?=

# For `make crash`: CRASH takes options of `python -m tests.crashes`, such as --seed 7.
HOURS ?= 1
CRASH ?=

# For `make fuzz`: FUZZ takes options of `python -m tests.fuzz`.
FUZZ ?=

# For `make release`: VERSION, and options of deploy/release.py, such as --no-image.
VERSION ?=
RELEASE ?=

.PHONY: image test-image again-image sbom dist release demo docs test check loadtest lint format tests soak dear again crash fuzz \
	explore constraints clean

demo: $(VENV)/base
	@$(BIN)/swiftlet demo --directory .demo --port $(PORT)

docs: $(VENV)/docs
	@$(BIN)/python -m sphinx --quiet --fail-on-warning -c docs/site . build/site
	@echo "the site is build/site/index.html"

test: lint tests

lint: $(VENV)/dev
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

tests: $(VENV)/dev
	$(BIN)/python -m pytest -n 2

check: $(VENV)/dev
	$(BIN)/python -m pytest -n 2 -m 'check and not soak'

soak: $(VENV)/dev
	$(BIN)/python -m pytest -n 2 -m soak

dear: $(VENV)/dev
	$(BIN)/python -m pytest -n 2 -m 'check or soak'

again: $(VENV)/dev
	$(BIN)/python -m pytest -m '' --last-failed --last-failed-no-failures none

crash: $(VENV)/dev
	$(BIN)/python -m tests.crashes --hours $(HOURS) $(CRASH)

fuzz: $(VENV)/dev
	$(BIN)/python -m tests.fuzz --hours $(HOURS) $(FUZZ)

explore: $(VENV)/dev
	$(BIN)/python -m pytest -n 2 -p no:tests.lanes -m 'not soak' --hypothesis-profile explore \
		$(shell grep -rl hypothesis tests --include='test_*.py')

format: $(VENV)/dev
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

image:
	@deploy/image/build $(TAG) $(BASE_IMAGE) "$(NETWORK)" $(DOCKER_BUILD)

# The last failures of these tests are kept apart from those of the lanes, which CI runs meanwhile.
IMAGE_TESTS = IMAGE=$(TAG) BASE_IMAGE=$(BASE_IMAGE) $(BIN)/python -m pytest -p no:tests.lanes -o cache_dir=.pytest_cache/image \
	tests/deploy/image tests/deploy/test_in_docker.py

test-image: $(VENV)/dev image
	$(IMAGE_TESTS)

again-image: $(VENV)/dev
	$(IMAGE_TESTS) --last-failed --last-failed-no-failures none

# The bill of materials that the image has.
sbom:
	@mkdir -p dist
	docker run --rm --entrypoint cat $(TAG) /opt/swiftlet/sbom.cdx.json > dist/swiftlet.cdx.json

dist: $(VENV)/release
	$(BIN)/python -m build --no-isolation --outdir dist
	$(BIN)/twine check --strict dist/*.tar.gz dist/*.whl

release: $(VENV)/release
	@$(BIN)/python deploy/release.py $(VERSION) $(RELEASE)

loadtest: $(VENV)/loadtest
	$(BIN)/python -m loadtests $(foreach index,$(INDEX),--index $(index)) --queries $(QUERIES) \
		--rates $(RATES) --duration $(DURATION) --out $(OUT) $(LOADTEST)

# The packages of serving and indexing.
$(VENV)/base: pyproject.toml constraints.txt | $(VENV)/python
	$(INSTALL) --editable .
	@touch $@

# The same, and the packages of load tests.
$(VENV)/loadtest: pyproject.toml constraints.txt | $(VENV)/python
	$(INSTALL) --editable '.[loadtest]'
	@touch $@ $(VENV)/base

# The same, and the packages of a release.
$(VENV)/release: pyproject.toml constraints.txt | $(VENV)/python
	$(INSTALL) --editable '.[release]'
	@touch $@ $(VENV)/base

# The same, and the packages of the site.
$(VENV)/docs: pyproject.toml constraints.txt | $(VENV)/python
	$(INSTALL) --editable '.[docs]'
	@touch $@ $(VENV)/base

# The same, and the packages of training, export, evaluation and the tests. The search page is tested in
# Chromium, deploy/ with Compose and Prometheus, crash points with a recorder in C.
$(VENV)/dev: pyproject.toml constraints.txt | $(VENV)/python
	@sh .ci/system-packages $(PYTHON) chromium docker-compose npm prometheus g++
	$(INSTALL) torch
	$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/base $(VENV)/docs

$(VENV)/python:
	@sh .ci/system-packages $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	@touch $@

constraints: $(VENV)/dev
	@{ sed -n '/^#/p' constraints.txt; $(BIN)/python -m pip freeze --exclude-editable \
		| sed 's/+cpu$$//'; } > constraints.new && mv constraints.new constraints.txt

clean:
	rm -rf $(VENV) .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
