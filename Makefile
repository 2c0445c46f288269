# Requires python3 (3.11 to 3.13), make, and git. Everything else is installed into this checkout.

PYTHON ?= python3
AIRFLOW ?= 3.3.2
OLDEST := 2.11.2
NEWEST := 3.3.2

VENV := $(if $(filter $(NEWEST),$(AIRFLOW)),.venv,.venv-$(AIRFLOW))
PY := $(VENV)/bin/python
UV := .tools/bin/uv --quiet
# loadfile: the tests of a file share servers, so one process runs all of them. tests/conftest.py orders the files.
# Three processes on two cores, because some tests wait for Airflow. Many tests of test-rest start a whole Airflow.
PYTEST_FLAGS ?= -q -n 3 --dist loadfile --no-loadscope-reorder
FEWER = $(subst -n 3,-n 2,$(PYTEST_FLAGS))
CONSTRAINTS := constraints/airflow-$(AIRFLOW).txt

# Runs a check, and records its result in constraints/checks.json. The name of the check has all given settings, so that
# only runs with the usual settings are recorded.
given = $(if $(filter environment% command%,$(origin $(1))),$(1)=$($(1)))
SETTINGS = $(foreach name,AIRFLOW PYTEST_FLAGS SECONDS RUNS N SEED,$(call given,$(name)))
CHECK = @$(PYTHON) scripts/checks.py run "$(strip $@ $(SETTINGS))" --
# Not $(MAKE) itself, because make --dry-run runs the lines that contain it.
AGAIN = $(MAKE) --no-print-directory

# Without this, uv downloads a Python interpreter if the requested one is missing.
export UV_PYTHON_DOWNLOADS := never
# The tests start dozens of processes that import Airflow. Without compiled files, that takes twice as long.
export UV_COMPILE_BYTECODE := 1
# Some images set this. Then each of these processes would compile the package and the tests again.
unexport PYTHONDONTWRITEBYTECODE
# uv does not read the settings of pip, so pass it the package index that pip uses.
PIP_INDEX := $(shell $(PYTHON) -m pip config list 2>/dev/null | sed -n "s/^[a-z:]*\.index-url='\(.*\)'$$/\1/p" | tail -n 1)
ifneq ($(PIP_INDEX),)
export UV_DEFAULT_INDEX := $(PIP_INDEX)
endif

.DEFAULT_GOAL := help
.PHONY: bench checks generate docs help install pictures mutants soak two-tasks selective test test-room test-all test-rest test-fast test-oldest test-floors test-matrix test-distributed lint fault-matrix \
	acceptance formats laravel requests partitions coverage demo ui screenshots variations constraints dist release-check clean

help:  ## List these targets
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 26
	@echo "AIRFLOW=$(OLDEST) works on the oldest supported Airflow, PYTHON=... on another Python."

install: $(VENV)/.installed  ## Set up the virtual environment of AIRFLOW (default: the newest version)
	@:

.tools/bin/uv: constraints/uv.txt
	@echo "Setting up .tools"
	@$(PYTHON) -m venv .tools
	@.tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

# The sync also removes packages that are not pinned. uv needs the real path of the interpreter, because tools such as
# pyenv put a script in its place.
$(VENV)/.installed: pyproject.toml $(CONSTRAINTS) | .tools/bin/uv
	@echo "Setting up $(VENV): Airflow $(AIRFLOW)"
	@test -x $(PY) || $(UV) venv --allow-existing --python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" $(VENV)
	@$(UV) pip sync --python $(PY) $(CONSTRAINTS)
	@$(UV) pip install --python $(PY) --no-deps --editable .
	@touch $@

test: install .tools/recipes/.installed  ## Test every guarantee: the fast tests and some slow ones (AIRFLOW=...)
	$(CHECK) $(PY) -m pytest $(PYTEST_FLAGS) --part chosen

test-rest: install .tools/recipes/.installed
	$(CHECK) $(PY) -m pytest $(FEWER) --part rest

test-all: test test-rest  ## Run the whole test suite
	@:

# About three minutes on two cores. Mark a test that takes long with one of these markers.
FAST := -m "not (kill or browser or system or slow)" tests/unit tests/contract tests/integration tests/fuzzer

test-fast: install  ## Run the fast tests (three minutes): no process kills, browser, or Airflow commands
	$(CHECK) $(PY) -m pytest $(PYTEST_FLAGS) $(FAST)

ROOM ?= api

# The tests of a folder of the package are in folders with the same name, those of a module in files with its name, or
# anywhere in the folder.
test-room: install  ## Run the quick tests of a folder or a module of the package, for example ROOM=operators/exclusions
	@$(PY) -m pytest $(PYTEST_FLAGS) --dist load -m "not (kill or browser or system or slow or long)" \
		$(or $(wildcard tests/unit/$(ROOM) tests/integration/$(ROOM) tests/*/$(dir $(ROOM))test_$(notdir $(ROOM))*.py),\
		$(if $(wildcard airflow_provider_analytics/$(ROOM).py),$(wildcard tests/unit/$(dir $(ROOM)) tests/integration/$(dir $(ROOM)))),\
		$(error No tests for ROOM=$(ROOM)))

coverage: install  ## Measure the branch coverage of test-fast; fail below the minimum in pyproject.toml
	@rm -rf build/coverage && mkdir -p build/coverage
	@$(PY) -m coverage run -m pytest $(PYTEST_FLAGS) $(FAST)
	@$(PY) -m coverage combine --quiet
	@$(PY) -m coverage html --quiet --directory build/coverage/html
	@$(PY) -m coverage report

test-oldest:  ## Run the whole test suite on the oldest supported Airflow
	@$(MAKE) --no-print-directory install AIRFLOW=$(OLDEST)
	@.venv-$(OLDEST)/bin/python -m pytest $(FEWER)

# The lowest versions that pyproject.toml allows.
test-floors: .tools/bin/uv  ## Run tests/integration/api on the lowest versions of all dependencies that pyproject.toml allows
	@test -x .venv-floors/bin/python || $(UV) venv --allow-existing \
		--python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .venv-floors
	@$(UV) pip sync --python .venv-floors/bin/python constraints/floors.txt
	@$(UV) pip install --python .venv-floors/bin/python --no-deps --editable .
	@.venv-floors/bin/python -m pytest -q -m "not (kill or browser or system or slow)" \
		-W "ignore:ObjectStoragePath._protocol_dispatch:DeprecationWarning" tests/integration/api

test-matrix: install  ## Test the wheel on every supported Airflow and Python, and write constraints/test_runs.md
	$(CHECK) $(PY) scripts/matrix.py

test-distributed:  ## Kill Celery workers while they run tasks; needs PostgreSQL and Redis
	@$(MAKE) --no-print-directory install AIRFLOW=$(NEWEST)-celery
	@rm -f build/distributed.md
	$(CHECK) .venv-$(NEWEST)-celery/bin/python -m pytest -q tests/system/distributed
	@cat build/distributed.md

# The connection is passed in the environment, because other users can see a command line.
acceptance: install  ## Run the contract tests of writes on a real server; CONN is its connection as URI or JSON
	@ACCEPTANCE_CONN="$${CONN:?must contain the connection of the server, as URI or JSON}" $(PY) -m pytest -q -rs -p no:xdist \
		tests/contract/test_contract_servers.py

PORT ?= 0

laravel: install  ## Start the Laravel application of tests/laravel on PORT (any), for example with FLAGS="APP_LIST=simple"
	@PYTHONPATH=tests/support:scripts $(PY) tests/support/laravel_application.py $(PORT) $(FLAGS)

variations: install  ## Take all steps of a user on all variations of the Laravel application, and print a table
	@$(PY) -m pytest $(PYTEST_FLAGS) --dist load tests/laravel

lint: install  ## Check style, format, and types
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m mypy

SECONDS ?= 300

soak: install  ## Fuzz the provider against random services for SECONDS (300); SEED=... is the first scenario
	$(CHECK) env PYTHONPATH=tests/support $(PY) tests/fuzzer/soak.py $(SECONDS) $(if $(SEED),--seed $(SEED))

RUNS ?= 200

two-tasks: install  ## Run two tasks at the same time, RUNS (200) times without and RUNS times with a late replica
	$(CHECK) env AIRFLOW__LOGGING__LOGGING_LEVEL=CRITICAL PYTHONPATH=tests/support $(PY) tests/fuzzer/two_tasks.py $(RUNS)

SEEDS ?= 12

selective: install  ## Print how many websites services that damage some of them damage before a run stops; SEEDS (12) runs each
	@PYTHONPATH=tests/support $(PY) tests/fuzzer/selective.py $(SEEDS)

fault-matrix: install  ## Test all combinations of list formats and write behaviors
	@FAULT_MATRIX=all $(PY) -m pytest $(PYTEST_FLAGS) tests/integration/api/test_fault_matrix.py

N ?= 40

mutants: install  ## Introduce N small mistakes, selected by SEED, and list those that no test catches
	$(CHECK) $(PY) scripts/mutants.py $(N) --seed $(or $(SEED),1)

requests: install  ## Count the requests of each operation, and write the table of docs/reference/performance.md
	@AIRFLOW__LOGGING__LOGGING_LEVEL=ERROR $(PY) tests/support/request_counts.py

partitions: install  ## Record which consumer DAGs a snapshot triggers, and write the table of docs/snapshots.md
	@PYTHONPATH=scripts $(PY) tests/support/partition_cells.py

formats: install  ## Write a snapshot in every format, read it back, and print the sizes
	@$(PY) scripts/snapshot_formats.py

# Run nothing else at the same time: the package and its peers are measured in turns.
bench: install  ## Measure the package and its peers, and write the tables of docs/reference/performance.md
	$(CHECK) $(PY) tests/benchmarks/bench.py --document

generate: install  ## Write all generated files and tables, for example docs/reference/interface.md
	@$(PY) scripts/generate.py

demo: install  ## Run the nightly DAG in a real Airflow against a local server, and print the snapshot
	@$(PY) scripts/demo.py

ui: install  ## Start Airflow's web interface with a local server, a connection, and the sample DAGs
	@$(PY) scripts/ui.py

SCREENSHOTS := -q tests/system/test_screens.py tests/system/test_web_interface.py

screenshots: install  ## Take pictures of all screens (build/screenshots), and copy the best ones to docs/images
	$(CHECK) $(AGAIN) pictures

pictures:
	@$(MAKE) --no-print-directory install AIRFLOW=$(OLDEST)
	@.venv-$(OLDEST)/bin/python -m pytest $(SCREENSHOTS)
	@$(PY) -m pytest $(SCREENSHOTS)
	@$(PY) scripts/screenshots.py $(NEWEST)

# Virtual environments for tools that are not dependencies of the package: MkDocs, the release tools, and the libraries of
# the recipes in docs/loading.md.
.tools/%/.installed: constraints/%.txt | .tools/bin/uv
	@echo "Setting up .tools/$*"
	@test -x .tools/$*/bin/python || $(UV) venv --allow-existing \
		--python "$$($(PYTHON) -c 'import sys; print(sys.executable)')" .tools/$*
	@$(UV) pip sync --require-hashes --python .tools/$*/bin/python $<
	@touch $@

# With --quiet, --strict would not count warnings. NO_MKDOCS_2_WARNING hides the notice of the theme about MkDocs 2.
docs: .tools/docs/.installed  ## Build the documentation site into site/; a broken link is an error
	@mkdir -p build
	$(CHECK) env NO_MKDOCS_2_WARNING=1 sh -c ".tools/docs/bin/python -m mkdocs build --strict > build/docs.log 2>&1 || \
		{ cat build/docs.log; exit 1; }"

dist: .tools/release/.installed  ## Build wheel, sdist, and SBOM of the last commit, and check everything that a release needs
	@.tools/release/bin/python scripts/release_check.py $(if $(TAGGED),--tagged)

release-check:  ## Run make dist and make coverage
	$(CHECK) $(AGAIN) dist coverage

checks:  ## List the checks with the last run of each; fail if one did not pass on a recent commit
	@$(PYTHON) scripts/checks.py

# Without --upgrade, uv keeps the existing pins of a file.
UPGRADE := $(if $(ADD),,--upgrade)

# The tools are pinned with hashes, because they build the published files. The pins of each Airflow have none, so that users
# can pass them to pip --constraint.
constraints: .tools/bin/uv  ## Pin the newest versions per supported Airflow (constraints/*.in); ADD=1 only adds missing ones
	@for tools in docs recipes release uv; do \
		$(UV) pip compile --universal --python-version 3.11 --no-header --no-annotate $(UPGRADE) --generate-hashes \
			constraints/$$tools.in --output-file constraints/$$tools.txt > /dev/null || exit 1; \
	done
	@for pins in $(patsubst %.in,%,$(wildcard constraints/airflow-*.in)); do \
		$(UV) pip compile --universal --python-version 3.11 --no-header --no-annotate $(UPGRADE) --all-extras \
			--group dev --no-emit-package airflow-provider-analytics pyproject.toml $$pins.in \
			--output-file $$pins.txt > /dev/null || exit 1; \
	done
	@$(UV) pip compile --python-version 3.11 --no-header --no-annotate $(UPGRADE) --resolution lowest-direct \
		--extra sandbox --no-emit-package airflow-provider-analytics pyproject.toml constraints/floors.in \
		--output-file constraints/floors.txt > /dev/null

clean:  ## Remove all files that the other targets create, including the virtual environments
	@rm -rf .tools .venv .venv-* .matrix .mypy_cache .pytest_cache .ruff_cache .hypothesis .demo .ui build dist site
	@find . -name __pycache__ -prune -exec rm -rf {} +
