# Courier: every command a contributor or operator needs. `make` alone prints this list.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# Evaluated where an environment is made, and not before.
PYTHON ?= $(or $(shell python3 tools/choose_python.py),$(error There is no Python to start with))
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv pip
TESTS ?= tests
# Spark starts many Pythons, and each would compile what it imports anew.
unexport PYTHONDONTWRITEBYTECODE
WORKERS ?= 2

help: ## Print this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(BIN)/uv:
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet 'uv>=0.5'

$(VENV)/.server: $(BIN)/uv pyproject.toml locks/server.txt
	@$(UV) install --quiet --python $(BIN)/python --require-hashes -r locks/server.txt
	@$(UV) install --quiet --python $(BIN)/python --no-deps -e .
	@touch $@

$(VENV)/.all: $(VENV)/.server locks/all.txt
	@$(UV) install --quiet --python $(BIN)/python --require-hashes -r locks/all.txt
	@touch $@

# A client of Spark Connect alone, in a folder that a test puts before the whole Spark.
$(VENV)/.client: $(BIN)/uv locks/client.txt
	@$(UV) install --quiet --python $(BIN)/python --no-deps --require-hashes --target $(VENV)/client -r locks/client.txt
	@touch $@

# The vendors' JavaScript clients, which the tests drive. Not `npm ci`: it refuses a lock that leaves out packages for
# other systems, which some registries do not carry.
$(VENV)/.node: $(BIN)/uv tests/clients/node/package-lock.json
	@command -v npm >/dev/null || { apt-get update -qq && apt-get install -y -qq nodejs npm; }
	@cd tests/clients/node && npm install --no-save --silent --no-audit --no-fund
	@touch $@

# The tests bring up a PostgreSQL of their own; Debian keeps its programs out of the path.
$(VENV)/.postgres: $(BIN)/uv
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq postgresql-15; }
	@touch $@

# Spark runs on Java 17 or newer.
$(VENV)/.java: $(BIN)/uv
	@test -x "$$JAVA_HOME/bin/java" || command -v java >/dev/null || { apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless; }
	@touch $@

# Classes that every JVM of the tests maps: there are a hundred of these.
$(VENV)/.classes: $(VENV)/.all $(VENV)/.java tests/support/spark.py
	@$(BIN)/python -m tests.support.spark
	@touch $@

# What the pipeline needs beyond the server.
$(VENV)/.spark: $(VENV)/.server locks/spark.txt
	@$(UV) install --quiet --python $(BIN)/python --require-hashes -r locks/spark.txt
	@touch $@

# The example of a cluster has a balancer. Debian would start it as a service at once; nobody asked for one.
$(VENV)/.nginx: $(BIN)/uv
	@command -v nginx >/dev/null || ls /usr/sbin/nginx >/dev/null 2>&1 || { apt-get update -qq && RUNLEVEL=1 apt-get install -y -qq nginx-light; }
	@command -v ip >/dev/null || { apt-get update -qq && apt-get install -y -qq iproute2; }
	@touch $@

install: $(VENV)/.server ## Create .venv with the server and the CLI at .venv/bin/courier

install-all: $(VENV)/.all $(VENV)/.client $(VENV)/.node $(VENV)/.postgres $(VENV)/.java $(VENV)/.nginx ## Add every extra and the development tools

run: install ## Start Courier on its embedded store in ./courier-data
	@$(BIN)/courier serve

pipeline: $(VENV)/.spark $(VENV)/.java ## Fill the lake's tables from the running server (COURIER_URL, COURIER_TOKEN)
	@$(BIN)/courier pipeline run --once

cluster: install-all ## Start a PostgreSQL, three nodes and a balancer on port 8080, until Ctrl-C
	@$(BIN)/python examples/cluster/start.py

# Whole files go to the workers, so that a Spark and its servers are shared. 5 means that there was no such test.
test: install-all $(VENV)/.classes ## Set everything up and run every test (WORKERS at a time, then those that need the machine alone)
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder -m 'not alone' $(TESTS) || test $$? = 5
	@$(BIN)/python -m pytest -m alone $(TESTS) || test $$? = 5

check: install-all ## Format, lint, type-check and run the fast tests
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/python -m pytest -m 'not slow' $(TESTS)

bench: install-all ## Measure Courier against a bare server in the same run; prints a table, writes JSON
	@$(BIN)/python -m benchmarks

LOCK = $(UV) compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --no-emit-find-links --python-version 3.11

lock: $(BIN)/uv ## Resolve the dependencies anew into locks/
	@$(LOCK) pyproject.toml -o locks/server.txt
	@$(LOCK) --extra spark -c locks/server.txt pyproject.toml -o locks/spark.txt
	@$(LOCK) --extra delta --extra postgres --extra spark --extra tracing --group dev -c locks/server.txt pyproject.toml -o locks/all.txt
	@$(LOCK) --group client --no-deps -o locks/client.txt

clean: ## Remove what the other commands made (not your data)
	@rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis build dist node_modules
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help install install-all run pipeline cluster test check bench lock clean
