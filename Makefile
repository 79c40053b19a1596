# Every target sets up what it needs: Python >= 3.11 with venv, make and a network are all that is assumed.
#
#   PYTHON=python3.12   the interpreter that makes the environment (default: the first of the usual names that will do)
#   VENV=.venv          where it is made
#   JOBS=2              processes that run tests

.DEFAULT_GOAL := help
SHELL := /bin/sh
.SUFFIXES:
.DELETE_ON_ERROR:

VENV ?= .venv
PYTHON ?=
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2
TESTS ?=
UPGRADE ?= --upgrade
BENCH ?=
ARGS ?=
SECONDS ?= 60
SEEDS ?= 1000
SEED ?=

.PHONY: help setup demo test serve moments simulate lab browser bench fuzz fuzz-api check style types rooms schema lock wheel clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{ printf "%-16s%s\n", $$1, $$2 }'

setup: $(STAMP)  ## make the environment that the other targets use
	@echo "$(VENV) is ready: $(BIN)/interlock --help"

demo: $(STAMP)  ## two whole rollouts over SSH on a practice host: one proven, one put back
	@$(BIN)/interlock demo

test: $(STAMP)  ## the tests, on SQLite and on a real PostgreSQL (TESTS=tests/unit for some of them)
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(TESTS)

lab: $(STAMP)  ## rollouts on container hosts with a systemd, journald and sshd of their own (root; Debian)
	@$(BIN)/interlock lab up --install
	@$(BIN)/interlock lab up --pci --install
	@INTERLOCK_LAB=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal tests/lab tests/contract/test_host.py
	@$(BIN)/interlock lab down

moments: $(STAMP)  ## kill and cancel a rollout at every moment, fail every call on its store and its hosts, and write to one store from many processes for longer
	@INTERLOCK_EVERY_MOMENT=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal tests/flows/test_killed.py tests/flows/test_cancel.py tests/flows/test_persistence.py tests/flows/test_ssh_calls.py tests/flows/test_two_at_once.py tests/flows/test_store_failures.py tests/simulation/test_store_calls.py tests/store/test_busy.py

simulate: $(STAMP)  ## rollouts on simulated hosts with faults drawn from seeds (SEEDS=1000, or one with its history: SEED=4711)
	@$(BIN)/python -m tests.simulation.simulate $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --jobs $(JOBS))

serve: $(STAMP)  ## a real `interlock serve` with Prefect beside it: forms, schedules, questions, stops and kills
	@INTERLOCK_SERVE=1 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile tests/serve

browser: $(STAMP)  ## look at the pages in Debian's Chromium (installs it as root)
	@command -v chromium >/dev/null || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium; }
	@INTERLOCK_BROWSER=1 $(BIN)/python -m pytest tests/browser

bench: $(STAMP)  ## the budgets beside real peers; root on Debian for container hosts (BENCH=job for one, ARGS="--runs 3")
	@$(BIN)/python -m benchmarks $(BENCH) $(ARGS)

fuzz: $(STAMP)  ## feed inspection with damaged and disguised artefacts (SECONDS=60)
	@$(BIN)/python benchmarks/fuzz_inspection.py --seconds $(SECONDS)

fuzz-api: $(STAMP)  ## ask the HTTP API what its document allows, and what it forbids (SECONDS=60)
	@INTERLOCK_FUZZ_API_S=$(SECONDS) $(BIN)/python -m pytest tests/api/test_schemathesis.py

check: style types rooms schema  ## ruff, mypy, import-linter, and the migrations against the tables

style: $(STAMP)
	$(BIN)/ruff check --output-format concise .
	$(BIN)/ruff format --check --output-format concise .

types: $(STAMP)
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases --exclude benchmarks/peer benchmarks

rooms: $(STAMP)
	$(BIN)/lint-imports --no-cache

schema: $(STAMP)
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	export INTERLOCK_DATA_DIR="$$folder" INTERLOCK_DATABASE_URL="sqlite:///$$folder/interlock.db" && \
	$(BIN)/interlock db upgrade && $(BIN)/interlock db check

lock: $(STAMP)  ## renew the locks (UPGRADE= keeps the versions that still fit)
	@PYTHON=$(BIN)/python UPGRADE="$(UPGRADE)" sh .ci/lock

wheel: $(STAMP)  ## build the source distribution and the wheel into dist/
	@$(BIN)/python -m build --no-isolation --outdir dist .

clean:  ## remove what tools left behind, but not the environment
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .grimp_cache
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# The stamp is the newest thing in the environment: made again when the locks or the project's own description change.
$(STAMP): requirements-dev.lock pyproject.toml .ci/environment
	@VENV=$(VENV) PYTHON="$(PYTHON)" sh .ci/environment
	@touch $@
