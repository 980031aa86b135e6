# Everything is done in .venv, which is made on first use and again for another Python:
# make PYTHON=python3.13 test
PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>&1)
BIN := .venv/bin
READY := .venv/ready-$(VERSION)

.DEFAULT_GOAL := help
.PHONY: help demo scenarios chaos mutants bench test test-fast matrix docs check fix clean

help: ## Say what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | while IFS='|' read -r name what; do \
		printf '  make %-10s %s\n' "$$name" "$$what"; done

demo: $(READY) ## Take 1,000 orders over HTTP, kill workers on the way, audit what came out
	@$(BIN)/python -m testproject.demo

scenarios: $(READY) ## Run 20,000 jobs through crashes, frozen processes and lost databases, then audit
	@$(BIN)/python -m testproject.soak

chaos: SECONDS ?= 600
chaos: $(READY) ## Do the same for as long as you like, then run random bodies: SECONDS=600 SEED=7
	@SOAK_SEED=$(SEED) $(BIN)/python -m testproject.soak --for $(SECONDS)
	@ULTIMATE_JOBS_EXAMPLES=$(SECONDS) $(BIN)/pytest -q -o timeout=0 $(if $(SEED),--hypothesis-seed=$(SEED)) \
		tests/simulation/test_programs.py

mutants: $(READY) ## Break the rules on purpose, one at a time: the tests must notice; ONLY="a slot"
	@$(BIN)/python -m tests.mutations $(ONLY)

bench: $(READY) ## Measure everything beside the raw limit; ONLY=drain,steps for a part, ONLY=growth_5m,bloat,cost for more
	@$(BIN)/python -m benchmarks --only '$(ONLY)'

test: $(READY) ## Run all tests
	$(BIN)/pytest -n logical

test-fast: $(READY) ## Run the tests that start no processes
	$(BIN)/pytest -m 'not slow and not scenario'

# tox does not see through the shims of pyenv.
PYENVS = $(shell pyenv root 2>/dev/null | xargs -I@ sh -c 'ls -d @/versions/*/bin' 2>/dev/null | paste -sd: -)

matrix: $(READY) ## Run the tests with every supported Python and Django here, and PostgreSQL 15: ARGS=tests/steps
	PATH="$(PYENVS):$$PATH" $(BIN)/tox run $(if $(ENVS),-e $(ENVS)) -- -n logical $(ARGS)

docs: $(READY) ## Make the site of the documentation, in docs/_build/html
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet -b html docs docs/_build/html

check: $(READY) ## Check format, lint, types, import contracts, system checks, migrations
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python manage.py check --fail-level WARNING
	$(BIN)/python manage.py makemigrations --check --dry-run

fix: $(READY) ## Format, and fix what lint can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean: ## Remove what was made: .venv, .tox, .postgres, .benchmarks, caches
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m testproject.postgres stop; fi
	rm -rf .venv .tox .postgres .postgres-* .benchmarks .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf build dist docs/_build htmlcov .coverage *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'Python 3.11 or newer is needed and "$(PYTHON)" is not. Try: make PYTHON=python3.13'; exit 1; }
	@echo 'Making .venv with Python $(VERSION) ...'
	@$(PYTHON) -m venv --clear .venv
	@echo 'Installing the package and its tools ...'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@
