# Everything that people and machines run here; `make` lists it.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
# Tests that wait for Airflow leave a core idle, so a second process runs those that need none. The order stays: the tests
# with Airflow take longest and begin first.
# A process of tests that crashes ends the run: pytest-xdist 3.8 may never end with the one that replaces it
# (https://github.com/pytest-dev/pytest-xdist/issues/1378).
AT_ONCE := --numprocesses 2 --dist loadscope --no-loadscope-reorder --max-worker-restart 0
# The example parts and the local stack are not part of the package that is installed.
export PYTHONPATH := $(CURDIR)/include:$(CURDIR)/tests:$(CURDIR)/tools$(if $(PYTHONPATH),:$(PYTHONPATH))

.DEFAULT_GOAL := help
.PHONY: help install demo up down test test-all containers checks lint format types contracts unit schema mutations faults bench compare lock lock-jars clean check-python check-java docs docs-reference

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1|/' | awk -F'|' '{ printf "  make %-14s %s\n", $$1, $$2 }'

check-python:
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is needed and $(PYTHON) was not found; install it, or name another one by PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed and $(PYTHON) is $$($(PYTHON) --version); name a newer one by PYTHON=..." >&2; exit 1; }

check-java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	command -v "$$java" >/dev/null || { echo "Java 17 or newer is needed and $$java was not found; install it, or point JAVA_HOME to it." >&2; exit 1; }; \
	version=$$("$$java" -version 2>&1 | sed -nE 's/.* version "(1\.)?([0-9]+).*/\2/p' | head -n 1); \
	test "$${version:-0}" -ge 17 || { echo "Java 17 or newer is needed and $$java is Java $${version:-of an unknown version}; point JAVA_HOME to a newer one." >&2; exit 1; }

install: $(INSTALLED) ## install the package and all it needs into .venv

# Every download is checked by its hash in requirements.lock: what installs and what builds, as well as what is installed.
$(INSTALLED): requirements.lock setup.cfg pyproject.toml | check-python
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	awk '/^[^ ]/ { wanted = /^(setuptools|uv)==/ } wanted' requirements.lock > .venv/bootstrap.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement .venv/bootstrap.txt
	$(BIN)/uv pip sync --quiet --require-hashes --no-build-isolation --compile-bytecode --python $(BIN)/python requirements.lock
	$(BIN)/uv pip install --quiet --no-deps --no-build-isolation --python $(BIN)/python --editable .
	@# The build leaves a second list of entry points next to the sources; Airflow would report our plugin as registered twice.
	rm -rf provider/*.egg-info
	touch $@

demo: $(INSTALLED) check-java ## show the path from a topic to work orders, with a summary
	$(BIN)/python -m demo $(if $(KEEP),--keep)

up: $(INSTALLED) check-java ## start the local stack and leave it running; with SPARK, EXECUTOR, ..., another kind of it
	$(BIN)/python -m local_stack up --detach $(if $(SPARK),--spark $(SPARK)) $(if $(EXECUTOR),--executor $(EXECUTOR)) \
		$(if $(POOLER),--pooler $(POOLER)) $(if $(REGISTRY),--registry) $(if $(LOGINS),--logins) $(if $(WHEEL),--wheel)

down: $(INSTALLED) ## stop what `make up` started
	$(BIN)/python -m local_stack down

# Each uses one core, and mypy takes longer than the others together.
checks: $(INSTALLED)
	@$(MAKE) --no-print-directory --jobs 2 types lint contracts

test: checks check-java ## check style, types and contracts, then run all tests
	$(BIN)/python -m pytest $(AT_ONCE)

test-all: checks check-java ## run the checks and all tests with the long matrices, for a release
	$(BIN)/python -m pytest $(AT_ONCE) -m ""

containers: $(INSTALLED) ## run docker-compose.yaml once, with the demo in it; root without Docker installs it
	$(BIN)/python -m pytest -m "" tests/scenarios/test_containers.py

unit: $(INSTALLED) ## run the tests that need no other process
	$(BIN)/python -m pytest tests/unit

docs-reference: $(INSTALLED) ## write the generated parts of docs/reference
	$(BIN)/python docs/_ext/generated_parts.py

docs: $(INSTALLED) ## build the documentation into build/docs
	$(BIN)/sphinx-build --quiet --nitpicky --fail-on-warning --keep-going docs build/docs
	@echo "Open build/docs/index.html."

lint: $(INSTALLED) ## check style, format and words
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/python -m words

format: $(INSTALLED) ## fix the format, and the style where ruff can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: $(INSTALLED) ## check types
	$(BIN)/mypy provider include dags spark_apps tests tools docs/_ext

contracts: $(INSTALLED) ## check which module may import which
	$(BIN)/lint-imports

schema: $(INSTALLED) check-java ## write which tables an upgrade creates, for the test that compares them
	$(BIN)/python -m support.schema_dump

mutations: $(INSTALLED) check-java ## break the code on purpose; the named tests must fail
	$(BIN)/python -m mutations

bench: $(INSTALLED) check-java ## measure, against plain COPY, Debezium's JDBC sink and Airflow's own operator
	$(BIN)/python -m benchmarks

compare: $(INSTALLED) check-java ## put the same faults to this package and to others, and write docs/explanation/comparison.md
	$(BIN)/python -m compare $(COMPARE)

faults: $(INSTALLED) check-java ## inject faults and count the messages; SEED= and MINUTES= for random ones
	$(BIN)/python -m faults $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(FAULTS)
	$(if $(FAULTS)$(MINUTES),,$(BIN)/python -m pytest -m long tests/integration/core/worker/test_steps_under_faults.py)

lock: $(INSTALLED) ## resolve the Python packages again into requirements.lock
	$(BIN)/uv pip compile setup.cfg --all-extras --universal --python-version 3.11 --generate-hashes --upgrade --quiet \
		--no-emit-index-url --constraints constraints.txt --custom-compile-command "make lock" --output-file requirements.lock

lock-jars: $(INSTALLED) ## resolve the jars of the local stack and of the benchmarks again
	$(BIN)/python -m local_stack lock-jars
	$(BIN)/python -m benchmarks.connect_jars

clean: ## remove what was built, except .venv
	rm -rf build .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
