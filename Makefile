# make demo    sets up .venv and runs the fleet and the maritime patterns over their samples: those of single entities on
#              Spark, and in process to see that the detections are equal; then all of them; tables on the terminal,
#              detections and maps in out/. The first call installs Java with apt-get, where it may
# make live    replays the maritime sample as AIS sentences over UDP into a live stream of this machine, without Java, and
#              shows the rates; ends by itself after a quarter of a minute. LIVE="--speed 1000" slower
# make test    lint, types, and tests, the examples that the pattern files carry among them (tests/library); the first
#              call installs chromium, Java and Maven with apt-get, where it may, for the tests of the map page, on Spark
#              and with Kafka
# make lint    ruff and mypy alone
# make bench   the experiments of benchmarks/, with their bounds (some minutes; makes about 0.5 GB of events once);
#              BENCH=--quick within 3 minutes, BENCH="latency places" some of them
# make soak    the tests that are too long for make test (kills at every named place, every case by every scheme, many
#              seeds: some 20 minutes), then kills the processes of a stream at random for SOAK_S seconds (600) and
#              compares its detections with those of a batch run;
#              SOAK="--source kafka --scheme partition --seed 7" (python -m tests.parallel.soak --help); SOAK=--several: pairs,
#              silences and rules
# make docs    the documentation as one site, out/site/index.html, which needs no network to be read
# make clean   removes what the others made, .venv included
#
# The first call sets up the virtual environment; the following ones only look at two stamp files.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
COMPILE := $(BIN)/python -c 'from wayeb_py.run.startup import compile_kernels; compile_kernels(2)'
WORKERS ?= 4
SOAK_S ?= 600

.PHONY: docs demo live demo-fleet demo-maritime test lint ruff bench soak clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.installed
	@mkdir -p out
	@sh .ci/java
	@$(MAKE) --no-print-directory demo-fleet demo-maritime
	@echo "==> the maps: out/fleet.html and out/maritime.html"

demo-fleet: SUBJECT = fleet
demo-maritime: SUBJECT = maritime
demo-maritime: OPTIONS = --clean ais
demo-fleet demo-maritime: DATA = --data data/$(SUBJECT)_sample.parquet $(OPTIONS)
demo-fleet demo-maritime:
	@echo "==> recognising the $(SUBJECT) patterns in the sample, encounters too, in process"
	@$(BIN)/wayeb run patterns/$(SUBJECT).sre $(DATA) --engine local --out out/$(SUBJECT).parquet --map out/$(SUBJECT).html
	@if $(BIN)/python -m wayeb_py.parallel.spark.java; then set -e; \
		echo "==> the same on Spark with two workers"; \
		WAYEB_SPARK_QUICK=1 $(BIN)/wayeb run patterns/$(SUBJECT).sre $(DATA) --engine spark --master 'local[2]' \
			--out out/$(SUBJECT)_on_spark.parquet; \
		$(BIN)/python data/compare.py out/$(SUBJECT)_on_spark.parquet out/$(SUBJECT).parquet; \
	fi
	@$(BIN)/python data/show.py out/$(SUBJECT).parquet

live: $(VENV)/.installed
	@$(BIN)/python data/live.py $(LIVE)

ruff: $(VENV)/.installed-test
	@echo "==> ruff"
	@$(BIN)/ruff check .

lint: ruff
	@echo "==> mypy --strict"
	@$(BIN)/mypy

# Tests start hundreds of Python processes and wait for many of them: byte code is kept, and mypy runs meanwhile.
test: export PYTHONDONTWRITEBYTECODE =
test: ruff
	@echo "==> pytest, the layer test among them, with $(WORKERS) workers: three of them for tests on Spark at first"
	@echo "==> mypy --strict at the same time"
	@$(BIN)/mypy & types=$$!; $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder; tests=$$?; \
		wait $$types && exit $$tests

bench: $(VENV)/.installed-test
	@echo "==> benchmarks: ratios, each with its bound"
	@$(BIN)/python -m benchmarks $(BENCH)

docs: $(VENV)/.installed-docs
	@echo "==> the documentation: out/site/index.html"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

soak: $(VENV)/.installed-test
	@echo "==> the long tests"
	@$(BIN)/python -m pytest -m soak
	@echo "==> random cases, new ones, as many as each test asks for"
	@HYPOTHESIS_PROFILE=full $(BIN)/python -m pytest -m 'hypothesis and not soak'
	@echo "==> a stream under fire for $(SOAK_S) s"
	@$(BIN)/python -m tests.parallel.soak --seconds $(SOAK_S) $(SOAK)
	@echo "==> a live stream under fire for a tenth of that"
	@$(BIN)/python -m tests.parallel.soak --seconds $$(( $(SOAK_S) / 10 )) --engine local

clean:
	rm -rf $(VENV) out build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis benchmarks/data benchmarks/records
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/pip
	@echo "==> installing wayeb_py and what it needs into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark]'
	@echo "==> compiling the kernels (once)"
	@$(COMPILE)
	@touch $@

# What the kernels need is installed first, so that they are compiled while the many packages of the tests are fetched
# and unpacked, which takes one processor, or none. Should one of those replace a package under the compiler, it goes on
# afterwards with what is missing. .ci/browser, .ci/java and .ci/kafka run one after another, since apt-get lets only one
# of them work.
$(VENV)/.installed-test: pyproject.toml | $(VENV)/bin/pip
	@echo "==> installing wayeb_py into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@echo "==> compiling the kernels (once), while what tests and benchmarks need is installed, a browser, Java and Kafka too"
	@set -e; $(COMPILE) 2>/dev/null & kernels=$$!; \
		{ sh .ci/browser; sh .ci/java; } & system=$$!; \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,bench]'; \
		wait $$system; VENV=$(VENV) sh .ci/kafka; \
		wait $$kernels || $(COMPILE)
	@echo "==> archiving Spark's classes, so that it starts sooner, and the byte code of the tests for all workers (once)"
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 & tests=$$!; \
		$(BIN)/python -m wayeb_py.parallel.spark.class_archive || true; \
		wait $$tests || true
	@touch $(VENV)/.installed $@

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/.installed
	@echo "==> installing what the documentation needs into $(VENV) (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

$(VENV)/bin/pip:
	@PYTHON=$(PYTHON) VENV=$(VENV) sh .ci/venv
