# Two commands on a fresh machine with only Python 3.11 or newer: make train, make test.
VENV ?= .venv
PYTHON ?= python3
BIN = $(VENV)/bin
# Python keeps what it compiles, also where a machine's settings say otherwise.
export PYTHONDONTWRITEBYTECODE =

.PHONY: train test newest more thorough core check docs clean

train: $(VENV)/installed
	$(BIN)/forage train ppo CartPole-v1 --seeds 5

test: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check --python-interpreter-path $(BIN)/python
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

# Trains, resumes and evaluates on the newest Python here with the newest JAX allowed, in an environment of its own, and
# compiles small programs of every kind, each within a minute.
newest: $(VENV)/bin/python
	$(BIN)/python benchmarks/versions.py --newest

# As much of what `make test` leaves out as fits in so many minutes, another part of it for each commit.
MINUTES ?= 12
more: $(VENV)/installed-test
	FORAGE_TEST_AS_USED=1 FORAGE_TEST_MINUTES=$(MINUTES) FORAGE_TEST_ORDER=$$(git rev-parse HEAD) \
		$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m thorough

# All tests, also those that `make test` leaves out (tests/tiers.py says which); an hour or more. Then what functions are
# given and return is compared with their annotations, shapes and all, and the core is tested without papers.
thorough: $(VENV)/installed-test
	FORAGE_TEST_AS_USED=1 FORAGE_TEST_KILLS=3 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m "thorough or not thorough"
	FORAGE_TEST_SHAPES=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal tests/ops tests/nn
	$(MAKE) core

# The core's tests of `make test` in a copy of this repository without the package of papers.
core: $(VENV)/installed-test
	$(BIN)/python tests/without_papers.py --numprocesses 2 --dist worksteal

check: $(VENV)/installed-test
	$(BIN)/ruff check . && $(BIN)/pyrefly check --python-interpreter-path $(BIN)/python && $(BIN)/codespell

# The site of all pages, in build/site; a warning or a broken link fails.
docs: $(VENV)/installed-docs
	$(BIN)/python docs/make/site.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

# pip would compile ten thousand modules, which takes minutes, and the tests import few of them.
$(VENV)/installed-test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[test,develop]'
	touch $@ $(VENV)/installed

$(VENV)/installed-docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) .cache .pytest_cache .ruff_cache build
