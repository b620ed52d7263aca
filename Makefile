# Two commands: `make demo` and `make test`. Each makes its own .venv with what it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test uncompiled slow thorough fuzz wheel wheel-test newest research nightly lint bench docs docs-links pictures clean

demo: $(VENV)/.demo
	$(BIN)/streamddcrp demo --out demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -m "not slow" -n auto --dist loadfile

slow: $(VENV)/.test
	$(BIN)/python -m pytest -m slow

# Kernels as Python, which reads in bounds or raises; tests/conftest.py says what is left out.
uncompiled: $(VENV)/.test
	NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=uncompiled $(BIN)/python -m pytest -m "not slow" -n 2 tests/unit tests/properties

# Twenty times as many examples as CI draws, and new ones on each run.
thorough: $(VENV)/.test
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest -m "not slow" -n auto tests/properties tests/conformance

# Wrong values for all that is public, adversarial rows, mutated files, full disks, kills, Ctrl-C, forks, forged states: FUZZ_MINUTES (3) each.
fuzz: $(VENV)/.test
	$(BIN)/python -m tests.nightly --only fuzz --minutes $(or $(FUZZ_MINUTES),3)

# Two wheels in dist: one with machine code, for this version of Python and kind of processor, and one for all others.
wheel: $(VENV)/.test
	rm -rf dist build/ready
	NUMBA_CACHE_DIR=build/ready $(BIN)/python -m tests.ready
	STREAMDDCRP_READY=build/ready $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	ls -l dist

# Source archive and wheels as built, in an environment of their own, from another folder.
wheel-test: wheel
	sh tests/wheel_test.sh $(BIN)/python

# The newest numba of the index, pre-releases too, which the package refuses: does it work without its inside?
newest: $(VENV)/.test
	$(PYTHON) -m venv $(VENV)-newest
	$(VENV)-newest/bin/python -m pip install --quiet --editable ".[plot]" --group test
	$(VENV)-newest/bin/python -m pip install --quiet --upgrade --pre numba
	$(VENV)-newest/bin/python -m pytest tests/golden/test_another_numba.py -m ""

# The papers' experiments and their baselines, made small.
research: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --dist loadfile research

# All of it, as long as it takes; research/notes/nightly.md keeps what came of it.
nightly: $(VENV)/.test
	$(BIN)/python -m tests.nightly

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, in docs/_build; a warning is an error.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build

# The pictures of the pages, as the examples draw them today; most need shared/data beside the clone.
EXAMPLES := read_the_outputs reuters_stories state_of_the_union taxi_seasons topic_tree when_it_goes_wrong why_did_it_say_that
pictures: demo
	for example in $(EXAMPLES); do $(BIN)/python examples/$$example.py demo || exit 1; done
	for picture in demo/*.png; do test ! -f docs/$${picture#demo/} || cp $$picture docs; done

docs-links: $(VENV)/.docs
	$(BIN)/python -m sphinx -q -b linkcheck docs docs/_build/links

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) docs/_build docs/api docs/tutorials docs/sg_execution_times.rst .mypy_cache .pytest_cache .ruff_cache

$(VENV)/bin/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'streamddcrp needs Python 3.11 or later; set PYTHON=/path/to/python3.11')"
	$(PYTHON) -m venv $(VENV)

# What is never imported need not be turned into bytecode, which would take half the time.
$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable ".[plot]"
	touch $@

$(VENV)/.pip: | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	touch $@

$(VENV)/.test: pyproject.toml | $(VENV)/.pip
	$(BIN)/python -m pip install --quiet --editable ".[plot]" --group test
	touch $@

$(VENV)/.lint: pyproject.toml | $(VENV)/.pip
	$(BIN)/python -m pip install --quiet --editable ".[plot]" --group test --group lint
	touch $@

$(VENV)/.docs: pyproject.toml | $(VENV)/.pip
	$(BIN)/python -m pip install --quiet --editable ".[plot]" --group docs
	touch $@
