# Two verbs are all a newcomer needs: `make run` and `make test`.
# Everything lives in .venv; nothing outside this folder is touched.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PIP := $(BIN)/pip --disable-pip-version-check
ARGS ?=
# Programs that tests start for real, and the Debian package of each.
PROGRAMS := initdb:postgresql chromium:chromium
PEERS ?= $(basename $(notdir $(wildcard benchmarks/peers/*.txt)))
.DEFAULT_GOAL := help
.PHONY: help run desk test lint programs docs peers clean

help: ## Say what each verb does
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

run: $(VENV)/.core ## Build a small city, learn two domains, audit them, write report.html
	@$(BIN)/parity311 run $(ARGS)
	@echo "More: make desk, or source $(BIN)/activate, then parity311 --help" >&2

desk: $(VENV)/.desk ## Open the desk on a generated city's day: http://127.0.0.1:8311
	@$(BIN)/parity311 serve $(ARGS)

test: $(VENV)/.dev lint programs ## Check style, types and layers, then run every test
	@$(BIN)/pytest -n 2 $(ARGS)

lint: $(VENV)/.dev ## Check style, types and the direction of imports
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/pyright && $(BIN)/lint-imports

programs: ## Install the servers that tests start (root, Debian); elsewhere those tests skip
	@missing=; for pair in $(PROGRAMS); do \
	  ls /usr/lib/postgresql/*/bin/$${pair%%:*} >/dev/null 2>&1 || command -v $${pair%%:*} >/dev/null || \
	  missing="$$missing $${pair##*:}"; done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing$$missing, which tests start"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$missing >/dev/null; \
	else echo "Not installed:$$missing; the tests that start them are skipped and say so" >&2; fi

docs: $(VENV)/.dev ## Write the generated parts of README and docs, then the site under site/
	@$(BIN)/python -m docs.generate $(ARGS)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The site is in site/: $(BIN)/python -m http.server --directory site, then port 8000"

peers: ## Build the environments of the libraries we measure against (several GB)
	@for name in $(PEERS); do \
	  file=benchmarks/peers/$$name.txt; home=.venvs/$$name; \
	  if [ $$file -ot $$home/.installed ]; then echo "$$home is there"; continue; fi; \
	  echo "Building $$home"; \
	  $(PYTHON) -m venv $$home && $$home/bin/pip install -q -r $$file && touch $$home/.installed || exit 2; \
	done

clean: ## Remove the environment and caches; cities and runs stay
	@rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# A stamp is touched only after a whole install, so an interrupted one is repeated.
$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "error: no python3 found; install Python 3.11 or newer."; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is $$($(PYTHON) --version 2>&1); Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"; exit 2; }
	@echo "Setting up .venv with $$($(PYTHON) --version) (once, about a minute)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/bin/python
	@$(PIP) install -q -c constraints.txt -e . && touch $@

$(VENV)/.desk: pyproject.toml constraints.txt | $(VENV)/bin/python
	@$(PIP) install -q -c constraints.txt -e '.[desk]' && touch $@ $(VENV)/.core

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	@$(PIP) install -q -c constraints.txt -e '.[dev]' && touch $@ $(VENV)/.core $(VENV)/.desk
