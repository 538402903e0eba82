PYTHON ?= python3
BIN := .venv/bin
CLUSTER ?= sandbox
PYTEST_FLAGS ?= -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: help venv sandbox demo clean check test bench engine-parsers

help:
	@echo "make venv      .venv with the package (editable) and the development tools"
	@echo "make demo      deploy examples/quickstart into a sandbox; CLUSTER=current: into the cluster of KUBECONFIG"
	@echo "make sandbox   start a sandbox: a control plane with Kueue, simulated GPU nodes, a Pulumi engine"
	@echo "make clean     stop and remove every sandbox of this checkout; the built toolchain stays in the cache"
	@echo "make check     linters, types, import contracts"
	@echo "make test      make check, then all tests; PYTEST_FLAGS are handed to pytest"
	@echo "make bench     benchmarks against their baselines"
	@echo "make engine-parsers   ask the real parsers of vLLM, SGLang and the routers again; takes 15 GB of disk for a while"

venv: .venv/installed

.venv/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; choose one with: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable . --group dev
	@touch $@

sandbox: venv
	$(BIN)/python -m sandbox up

demo: venv
	$(BIN)/python -m sandbox demo --cluster $(CLUSTER)

clean: venv
	$(BIN)/python -m sandbox clean

check: venv
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports

test: check
	$(BIN)/python -m pytest $(PYTEST_FLAGS)

bench: venv
	$(BIN)/python -m benchmarks

engine-parsers: venv
	$(BIN)/python -m tests.engine_parsers
