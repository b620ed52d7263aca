# Two commands: `make demo` and `make test`. Each makes its own .venv with what it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test uncompiled slow wheel-test nightly lint bench clean

demo: $(VENV)/.demo
	$(BIN)/streamddcrp demo --out demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -m "not slow" -n auto --dist loadfile

slow: $(VENV)/.test
	$(BIN)/python -m pytest -m slow

# Kernels as Python, which reads in bounds or raises; tests/conftest.py says what is left out.
uncompiled: $(VENV)/.test
	NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=uncompiled $(BIN)/python -m pytest -m "not slow" -n 2 tests/unit tests/properties

# The built wheel, in an environment of its own, from another folder.
wheel-test: $(VENV)/bin/python
	sh tests/wheel_test.sh $(BIN)/python

nightly: uncompiled slow wheel-test

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache

$(VENV)/bin/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'streamddcrp needs Python 3.11 or later; set PYTHON=/path/to/python3.11')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[plot]"
	touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[plot]" --group test
	touch $@

$(VENV)/.lint: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[plot]" --group test --group lint
	touch $@
