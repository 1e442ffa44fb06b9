# rag: build, install, try and test. `make help` lists the targets.
#
#   PG_CONFIG   the PostgreSQL to build for (default: pg_config from PATH)
#   DESTDIR     where to install instead of / (for packages)

PG_CONFIG ?= pg_config
export PG_CONFIG DESTDIR

.PHONY: help deps build install uninstall demo test check-long bench bench-hnsw lint clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

deps: ## install what building and testing need and this machine lacks
	@scripts/deps.sh

build: ## compile the extension and its engine, fetch and convert the model
	@scripts/build.sh

install: ## put all of it into PostgreSQL's folders (PG_CONFIG, DESTDIR)
	@scripts/build.sh
	@scripts/install.sh

uninstall: ## remove from PostgreSQL's folders what install put there
	@scripts/install.sh --remove

demo: ## from nothing to answered questions, in a throwaway cluster
	@scripts/deps.sh
	@scripts/build.sh
	@scripts/install.sh
	@scripts/demo.sh

test: ## from nothing to tests passed, in throwaway clusters
	@scripts/deps.sh
	@scripts/build.sh
	@scripts/install.sh
	@scripts/test.sh

check-long: ## as test, and then the tests that take long
	@scripts/deps.sh
	@scripts/build.sh
	@scripts/install.sh
	@scripts/test.sh --long

bench: ## measure, and print a table
	@scripts/deps.sh
	@scripts/build.sh
	@scripts/install.sh
	@benches/run.sh

bench-hnsw: ## measure the vector index against pgvector's, in PostgreSQL 18
	@scripts/deps.sh
	@benches/run.sh hnsw $(if $(filter 0,$(BENCH_GROWTH)),,hnsw-growth)

lint: ## rustfmt, clippy, and pgspot over the install script; warnings are errors
	@scripts/lint.sh

clean: ## remove what was built or fetched here (target/, build/)
	rm -rf target build
