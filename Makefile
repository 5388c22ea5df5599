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
# Most tests of `make test` wait for a server, a database or Spark: four keep two cores busy. Fast tests wait for nothing.
WORKERS ?= 4
FAST_WORKERS ?= 3
PYTEST := $(BIN)/python -m pytest
FAST := not (slow or cluster or alone or postgres or spark)
FAST_TESTS = $(PYTEST) -n $(FAST_WORKERS) --dist loadfile --maxfail=20 -m '$(FAST)' $(TESTS)
MEASURE := --cov=couriermq --cov-report=
SOAK := $(wildcard tests/*/test_histories.py tests/*/test_*kill*.py tests/end_to_end/test_cluster_*.py tests/end_to_end/test_memory.py) $(addprefix tests/storage/sqlite/test_,damage.py power_cut.py) $(addprefix tests/spark/test_,clusters.py erased_lakes.py pipeline.py) tests/console/test_tail_memory.py
FUZZ := tests/dialects/test_fuzz.py $(wildcard tests/hostile/test_*fuzz*.py)

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

# A client of Cloudflare Queues that asks for Python 3.13, in a folder that its test puts before everything else.
$(VENV)/.cfq: $(BIN)/uv locks/cfq.txt
	@$(UV) install --quiet --python $(BIN)/python --python-version 3.13 --no-deps --require-hashes --target $(VENV)/cfq -r locks/cfq.txt
	@touch $@

# What builds the wheel, in a folder of its own: its versions decide the bytes.
$(VENV)/.build: $(BIN)/uv locks/build.txt
	@$(UV) install --quiet --python $(BIN)/python --no-deps --require-hashes --target $(VENV)/build -r locks/build.txt
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

# What the tests of the console look with: Debian's browser, rules of accessibility, a checker of types.
$(VENV)/.console: $(BIN)/uv tests/console/node/package-lock.json
	@command -v npm >/dev/null || { apt-get update -qq && apt-get install -y -qq nodejs npm; }
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }
	@cd tests/console/node && npm install --no-save --silent --no-audit --no-fund
	@touch $@

install: $(VENV)/.server ## Create .venv with the server and the CLI at .venv/bin/courier

install-all: $(VENV)/.all $(VENV)/.client $(VENV)/.cfq $(VENV)/.node $(VENV)/.console $(VENV)/.postgres $(VENV)/.java $(VENV)/.nginx ## Add every extra and the development tools

run: install ## Start Courier on its embedded store in ./courier-data
	@$(BIN)/courier serve

pipeline: $(VENV)/.spark $(VENV)/.java ## Fill the lake's tables from the running server (COURIER_URL, COURIER_TOKEN)
	@$(BIN)/courier pipeline run --once

cluster: install-all ## Start a PostgreSQL, three nodes and a balancer on port 8080, until Ctrl-C
	@$(BIN)/python examples/cluster/start.py

# Everything that these need comes with pip: no Java, no database, no Node. mypy has one core to itself for as long as
# it takes, and the tests have the other.
check: $(VENV)/.all ## Lint, type-check and run the fast tests on the embedded engine; changes no file
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary & $(FAST_TESTS) $(if $(COVERAGE),$(MEASURE)); tested=$$?; wait $$! && exit $$tested

format: $(VENV)/.all ## Format the code and apply the linter's fixes
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

# Whole files go to the workers, which share servers and a Spark within one. 5 means that there was no such test.
# CHECKED=yes leaves out the fast tests, for who has just run `make check COVERAGE=yes` on the same files.
test: install-all $(VENV)/.classes ## Set everything up and run every test (WORKERS at a time, clusters three at a time, some alone)
	@$(if $(CHECKED),true,$(FAST_TESTS) $(MEASURE)) || test $$? = 5
	@$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=20 -m 'not (cluster or alone) and not ($(FAST))' $(TESTS) || test $$? = 5
	@$(PYTEST) -n 3 --dist loadfile --durations=10 -m cluster $(TESTS) || test $$? = 5
	@$(PYTEST) --durations=10 -m alone $(TESTS) || test $$? = 5
	@echo "Lines that the fast tests reach, in percent: $$($(BIN)/coverage report --format=total 2>/dev/null || echo none ran)"

# Bounded in time: SOAK_SECONDS for each test of histories, and larger loads and more kills for the others.
SOAK_SECONDS ?= 300
soak: install-all $(VENV)/.classes ## Run histories, kills and clusters for long: more examples, messages and kills
	@COURIER_SOAK_SECONDS=$(SOAK_SECONDS) $(PYTEST) --durations=20 $(SOAK)

# Bounded in time: FUZZ_SECONDS for each of the files.
FUZZ_SECONDS ?= 300
fuzz: install-all ## Send generated requests and damaged bytes to servers and clients for long
	@COURIER_FUZZ_SECONDS=$(FUZZ_SECONDS) $(PYTEST) --durations=20 $(FUZZ)

bench: install-all ## Measure every row, print figures and verdicts, append the run to benchmarks/history
	@$(BIN)/python -m benchmarks

bench-check: install-all ## The same, and fail when a bar is missed
	@$(BIN)/python -m benchmarks --check

bench-quick: $(VENV)/.all ## The hot rows on the embedded store within five minutes; fail when a bar is missed
	@$(BIN)/python -m benchmarks --quick --check

console-pictures: $(VENV)/.all $(VENV)/.console ## Take the pictures in docs/console/ from simulated data
	@$(BIN)/python -m tools.picture_console docs/console

dist: $(VENV)/.build ## Build the wheel and the sdist into dist/; one commit always gives the same bytes
	@PYTHONPATH=$(abspath $(VENV)/build) $(BIN)/python tools/build_dist.py dist

sbom: ## Write dist/sbom.cdx.json, the packages of the locks as a bill of materials (CycloneDX)
	@$(PYTHON) tools/write_sbom.py dist/sbom.cdx.json

# What looks for known vulnerabilities, in a folder of its own. It asks the network, so no other target runs it.
$(VENV)/.audit: $(BIN)/uv locks/audit.txt
	@$(UV) install --quiet --python $(BIN)/python --no-deps --require-hashes --target $(VENV)/audit -r locks/audit.txt
	@touch $@

audit: $(VENV)/.audit ## Look up known vulnerabilities of every locked package; needs the network
	@for lock in locks/*.txt; do echo "$$lock:" && PYTHONPATH=$(abspath $(VENV)/audit) $(BIN)/python -m pip_audit --strict --progress-spinner=off --disable-pip --require-hashes -r $$lock || exit 1; done

LOCK = $(UV) compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --no-emit-find-links --python-version 3.11

lock: $(BIN)/uv ## Resolve the dependencies anew into locks/
	@$(LOCK) pyproject.toml -o locks/server.txt
	@$(LOCK) --extra spark -c locks/server.txt pyproject.toml -o locks/spark.txt
	@$(LOCK) --extra delta --extra postgres --extra spark --extra tracing --group dev -c locks/server.txt pyproject.toml -o locks/all.txt
	@$(LOCK) --group client --no-deps -o locks/client.txt
	@$(LOCK:3.11=3.13) --group cfq --no-deps -o locks/cfq.txt
	@$(LOCK) --group build -c locks/all.txt -o locks/build.txt
	@$(LOCK) --group beside -c locks/all.txt -o locks/beside.txt
	@$(LOCK) --group audit -c locks/all.txt -o locks/audit.txt

clean: ## Remove what the other commands made (not your data)
	@rm -rf $(VENV) .coverage .mypy_cache .ruff_cache .hypothesis build dist node_modules
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help install install-all run pipeline cluster test check format soak fuzz bench bench-check bench-quick console-pictures dist sbom audit lock clean
