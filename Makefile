# Every target makes its own virtual environment from nothing: Python 3.10+ and a C++ compiler are enough.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: demo test test-slow lint sanitize clean

$(VENV)/.base: pyproject.toml constraints.txt CMakeLists.txt $(wildcard csrc/*.* csrc/*/*.*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -c constraints.txt torch
	$(PIP) install -c constraints.txt scikit-build-core cmake ninja
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[demo]'
	touch $@

$(VENV)/.dev: $(VENV)/.base
	$(PIP) install -c constraints.txt --no-build-isolation -e '.[dev]'
	touch $@

demo: $(VENV)/.base  ## train on the embedded digits graph
	$(BIN)/longhop train demo

test: $(VENV)/.dev  ## the test suite (about ten minutes on two cores)
	$(BIN)/python -m pytest

test-slow: $(VENV)/.dev  ## what takes minutes each
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.dev  ## format, lint, types, layers
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports

sanitize: $(VENV)/.dev  ## the op tests under AddressSanitizer and UBSan
	$(BIN)/python -m longhop.testing.sanitize

clean:
	rm -rf $(VENV) build dist src/longhop/ops/_lib
