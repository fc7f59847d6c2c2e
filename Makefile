# make demo    sets up .venv and runs the fleet and the maritime patterns over their samples: tables on the terminal,
#              detections and maps in out/
# make test    lint, types, tests, and the examples that the pattern files carry; the first call installs chromium with
#              apt-get, where it may, for the tests of the map page
# make lint    ruff and mypy alone
# make bench   the experiments of benchmarks/, with their bounds (some minutes; makes about 0.5 GB of events once)
# make clean   removes what the others made, .venv included
#
# The first call sets up the virtual environment; the following ones only look at two stamp files.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
WORKERS ?= 2

.PHONY: demo test lint bench clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.installed
	@mkdir -p out
	@echo "==> recognising the fleet patterns in data/fleet_sample.parquet"
	@$(BIN)/wayeb run patterns/fleet.sre --data data/fleet_sample.parquet --out out/fleet.parquet --map out/fleet.html
	@$(BIN)/python data/show.py out/fleet.parquet
	@echo "==> recognising the maritime patterns in data/maritime_sample.parquet, cleaned of what AIS cannot mean"
	@$(BIN)/wayeb run patterns/maritime.sre --data data/maritime_sample.parquet --clean ais \
		--out out/maritime.parquet --map out/maritime.html
	@$(BIN)/python data/show.py out/maritime.parquet
	@echo "==> the maps: out/fleet.html and out/maritime.html"

lint: $(VENV)/.installed-test
	@echo "==> ruff"
	@$(BIN)/ruff check .
	@echo "==> mypy --strict"
	@$(BIN)/mypy

test: lint
	@echo "==> pytest, the layer test among them, with $(WORKERS) workers"
	@$(BIN)/python -m pytest -n $(WORKERS)
	@echo "==> the examples inside the pattern files"
	@$(BIN)/wayeb test patterns/

bench: $(VENV)/.installed-test
	@echo "==> benchmarks: ratios, each with its bound"
	@$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) out build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis benchmarks/data benchmarks/records
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/pip
	@echo "==> installing wayeb_py and what it needs into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@echo "==> compiling the kernels (once)"
	@$(BIN)/python -c "from wayeb_py.startup import compile_kernels; compile_kernels()"
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(VENV)/.installed
	@echo "==> installing what the tests and benchmarks need into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,bench]'
	@sh .ci/browser
	@touch $@

$(VENV)/bin/pip:
	@PYTHON=$(PYTHON) VENV=$(VENV) sh .ci/venv
