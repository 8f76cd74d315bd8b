# The development commands. `make help` lists them.
PYTHON ?= python3
VENV ?= .venv
BIN ?= $(VENV)/bin
BASE ?= HEAD^
# Tests of every run that belong to `make chaos` as well: what one query, record, client, peer or file does to the others.
CHAOS_TESTS = tests/app/test_starts.py tests/continuous/test_unreplayed.py \
  tests/app/test_budgets.py tests/app/test_slow_queries.py tests/continuous/test_fair_shares.py tests/continuous/test_runs_of_closes.py \
  tests/app/test_failed_registrations.py tests/continuous/test_derived_streams.py tests/app/test_whole_outputs.py \
  tests/continuous/language/mapping/test_limits.py tests/app/test_public_bodies.py tests/app/test_revoked_tokens.py \
  tests/app/connectors/test_hostile_receivers.py tests/app/connectors/test_rotations.py tests/app/connectors/test_files_together.py tests/app/connectors/test_kills.py \
  tests/app/connectors/test_broker_records.py tests/app/connectors/test_kafka_broker.py tests/app/test_wall_clock.py \
  tests/app/server/test_departed_clients.py tests/app/test_behind_a_proxy.py
CLIENTS = $(or $(TEST_QUADRILL_CLIENTS),$(HOME)/.cache/quadrill/clients)

.PHONY: help dev check types imports test test-fast test-all kafka client clients bench bench-peers targets chaos soak links vendor lock record-requests changelog ratios

help: ## list the commands
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

dev: ## make a virtual environment with everything that development needs
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e '.[dev]'

links: ## the link folder through which type checkers see the packages
	@mkdir -p .links/quadrill
	@for d in app continuous store migrations static; do ln -sfn ../../$$d .links/quadrill/$$d; done
	@ln -sfn ../../app/client .links/quadrill/client

check: ## style: ruff, its format, and codespell
	$(BIN)/ruff check .
	$(BIN)/ruff format -q --check .
	$(BIN)/codespell

types: links ## mypy --strict
	$(BIN)/mypy

imports: ## the import directions
	$(BIN)/lint-imports

test: ## the tests of the README
	$(BIN)/python -m pytest -n auto --dist loadfile

test-fast: ## laws, oracles and units, under three minutes on two cores: no servers, no Spark, no browser, no other processes
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not (slow or chaos or process or postgres or spark)" tests/continuous tests/store

test-all: ## everything, the slow sweeps and all examples of the laws too
	TEST_QUADRILL_EXAMPLES=all $(BIN)/python -m pytest -m "slow or not slow"

changelog: ## move the fragments of changelog.d into CHANGELOG.md as the section of VERSION=0.1.1
	$(BIN)/towncrier build --yes --version $(or $(VERSION),$(error Say which version: make changelog VERSION=0.1.1))

docs: ## the site of the documents, into build/site, with every link looked at
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q --strict

client: ## write app/client/sync.py and sender.py from asynchronous.py and async_sender.py
	$(BIN)/python -m tests.client.unasync
	$(BIN)/ruff check -q --fix app/client/sync.py app/client/sender.py
	$(BIN)/ruff format -q app/client/sync.py app/client/sender.py

record-requests: ## record again how the front answers some 3,400 requests: only with a change of the HTTP contract
	$(BIN)/python -m tests.app.front.recording $(SCENARIO)

tutorial: ## follow docs/tutorial.md in a fresh copy and a fresh environment, with a clock
	$(BIN)/python -m benchmarks.tutorial

kafka: ## the jars of a real Kafka broker for its tests, into ~/.cache/quadrill/kafka; needs Java and Maven
	mvn -q -B -f .ci/kafka/pom.xml dependency:copy-dependencies -DincludeScope=runtime \
	  -DoutputDirectory=$(or $(TEST_QUADRILL_KAFKA),$(HOME)/.cache/quadrill/kafka)

clients: ## YASGUI, Comunica and TypeScript for their tests, into ~/.cache/quadrill/clients; needs npm
	mkdir -p $(CLIENTS) && cp .ci/clients/package*.json $(CLIENTS)
	cd $(CLIENTS) && npm ci --no-audit --no-fund --ignore-scripts

chaos: ## 320 kills, damage of every file, hostile clients, peers and queries beside a probe; an hour
	$(BIN)/python -m pytest -m chaos tests
	$(BIN)/python -m pytest -m "not chaos" $(CHAOS_TESTS)

soak: ## half an hour of steady load on a real server; MINUTES=3 for a short one, HOURS=4 with default settings
	$(BIN)/python -m benchmarks.soak $(if $(HOURS),--hours $(HOURS),--minutes $(or $(MINUTES),30))

vendor: ## bundle CodeMirror for the page from npm, as .ci/codemirror has it locked; needs Node
	cd .ci/codemirror && npm ci --no-audit --no-fund && npm run -s build

lock: ## renew the versions and hashes that the images of docker/ install; needs uv
	uv pip compile -q pyproject.toml docker/build.in --extra postgres --generate-hashes --python-version 3.13 \
	  --no-header --no-annotate --upgrade -o docker/requirements.lock
	uv pip compile -q pyproject.toml docker/build.in --extra postgres --extra spark --generate-hashes --python-version 3.13 \
	  --no-header --no-annotate --upgrade -o docker/requirements-spark.lock

bench: ## all benchmarks, ratios of one run; writes the tables and plots of docs/performance.md
	$(BIN)/python -m benchmarks

bench-peers: ## beside rsp-js, rsp-rs, oxigraph serve and a polling loop, in one run; QUICK=--quick for a short one
	$(BIN)/python -m benchmarks.peers $(QUICK)

ratios: ## CPU time per request against BASE, by default the commit before: both in one run, fails beyond 25 %
	rm -rf build/ratios build/lib && git worktree prune
	git worktree add -q --detach build/ratios/base $(BASE)
	$(PYTHON) -m venv build/ratios/old && build/ratios/old/bin/pip install -q ./build/ratios/base
	$(PYTHON) -m venv build/ratios/new && build/ratios/new/bin/pip install -q .
	build/ratios/new/bin/python -m benchmarks.ratios build/ratios/old/bin/quadrill build/ratios/new/bin/quadrill
	git worktree remove --force build/ratios/base

targets: ## what performance must reach and aims at, measured in one run; QUICK=--quick for a short one
	$(BIN)/python -m benchmarks.targets $(QUICK)
