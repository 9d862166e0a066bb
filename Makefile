# Everything runs in .venv, which is made on demand. Packages come from wherever pip is configured to look
# (PIP_INDEX_URL, PIP_FIND_LINKS, PIP_NO_INDEX, pip.conf), so a mirror serves as well as the public index.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

# Compiled files are kept: without them every process that a test starts compiles all of the package anew.
export PYTHONDONTWRITEBYTECODE :=
# Each worker begins with a half of the tests, in order, so that what a file of tests shares is mostly made once.
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal -rfEs

.DEFAULT_GOAL := help
.PHONY: help demo test slow studies fuzz lint types bench bench-scale study attacks reproduce docs site clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

demo: $(VENV)/.installed ## protect a bundled survey and show what was kept and hidden
	@$(BIN)/microveil demo

test: $(VENV)/.installed-dev ## run the quick tests: every behaviour, in less than five minutes on two cores
	$(PYTEST)

slow: $(VENV)/.installed-dev ## run the tests that repeat more: all methods and files, many seeds, kills, published tables
	$(PYTEST) -m "slow and not study"

studies: $(VENV)/.installed-dev ## run the longest studies, which CI leaves out
	$(PYTEST) -m study

fuzz: $(VENV)/.installed-dev ## odd files for the readers, for FUZZ_SECONDS (600); property tests at random, FUZZ_EXAMPLES (1500) each
	$(BIN)/python scripts/fuzz.py
	MICROVEIL_FUZZ=$${FUZZ_EXAMPLES:-1500} $(PYTEST) -m hypothesis

lint: $(VENV)/.installed-dev ## style, formatting, import rules, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python scripts/check_imports.py
	$(BIN)/python scripts/make_docs.py --check
	$(BIN)/python scripts/make_example_survey.py --check

types: $(VENV)/.installed-dev ## check the types
	$(BIN)/mypy

BENCHES = run regression maskers measures tables study_time wide growth command_line app kinds

bench: $(VENV)/.installed-dev ## measure speed and memory beside bare numpy, into bench/*.json, and say what moved by more than a tenth
	@failed=0; for name in $(BENCHES); do $(BIN)/python bench/$$name.py || failed=1; done; $(BIN)/python bench/moved.py; exit $$failed

bench-scale: $(VENV)/.installed-dev ## measure the streaming engine on files of millions of rows, into bench/scale.json
	$(BIN)/python bench/scale.py

study: $(VENV)/.installed-dev ## compare veil with other methods over 20 seeds, into docs/veil-study.md
	$(BIN)/python bench/study_veil.py

attacks: $(VENV)/.installed-dev ## try every attack on every method, into docs/attacks.md
	$(BIN)/python bench/attacks.py

reproduce: $(VENV)/.installed-dev ## make the papers' tables and figures again (an hour), into docs/reproduced.md; IMAGE=FILE for Lena, REPEATS=N (20)
	$(BIN)/python scripts/reproduce.py

docs: $(VENV)/.installed-dev ## write the generated pages anew
	$(BIN)/python scripts/make_docs.py

site: $(VENV)/.installed-dev ## build the documentation into docs/_site; its examples are run, warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_site

clean: ## remove everything that was made
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis demo-output docs/_site

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "microveil needs Python 3.11 or newer; set PYTHON=... to use another one" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
		|| { rm -rf $(VENV); echo "python3 cannot make virtual environments; install its venv module" >&2; exit 1; }

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	@echo "installing microveil into $(VENV) (once) ..."
	@$(PIP) install --quiet --editable ".[report]"
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	@echo "installing microveil and its test tools into $(VENV) (once) ..."
	@$(PIP) install --quiet --editable ".[dev]"
	@touch $@ $(VENV)/.installed
