# Builds, installs and tests rag. `make help` lists the targets.
#
#   PG_CONFIG         the PostgreSQL to build for (default: pg_config from PATH)
#   DESTDIR           where to install instead of / (for packages)
#   WITH_OPENVINO=1   install OpenVINO, too: a second runtime of models, 88 MB

PG_CONFIG ?= pg_config
export PG_CONFIG DESTDIR WITH_OPENVINO

.PHONY: help deps build install uninstall deb rpm demo test docs check-long check-versions
.PHONY: bench bench-hnsw bench-bm25 lint clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

deps: ## install the packages that building and testing need
	@scripts/deps.sh

build: ## compile the extension and the engine, fetch and convert the model
	@scripts/build.sh

install: ## build, and copy everything into PostgreSQL's folders (PG_CONFIG, DESTDIR)
	@scripts/build.sh
	@scripts/install.sh

uninstall: ## remove the installed files
	@scripts/install.sh --remove

deb: ## make Debian packages of the extension, the engine, the model and the gateway
	@scripts/deps.sh
	@scripts/build.sh
	@scripts/deb.sh

rpm: ## the same for the package manager of Fedora and Red Hat
	@scripts/deps.sh
	@scripts/build.sh
	@scripts/rpm.sh

demo: ## install, and show a tour in a throwaway cluster
	@scripts/deps.sh
	@scripts/build.sh
	@scripts/install.sh
	@scripts/demo.sh

test: ## install, and run all tests in throwaway clusters
	@scripts/deps.sh
	@scripts/build.sh
	@scripts/install.sh
	@scripts/test.sh

docs: ## write the generated tables and example output of the documentation
	@scripts/docs.sh

check-long: ## as test, with the tests that take minutes
	@scripts/deps.sh
	@scripts/build.sh
	@scripts/install.sh
	@scripts/test.sh --long
	@scripts/test-packages.sh

check-versions: ## the tests of SQL and of clusters with PostgreSQL 16, 17 and 18
	@scripts/deps.sh
	@scripts/test-versions.sh

bench: ## install, run the benchmarks, and print a table
	@scripts/deps.sh
	@scripts/build.sh
	@scripts/install.sh
	@benches/run.sh

bench-hnsw: ## compare the vector index with pgvector's, in PostgreSQL 18
	@scripts/deps.sh
	@benches/run.sh hnsw $(if $(filter 0,$(BENCH_GROWTH)),,hnsw-growth)

bench-bm25: ## compare the keyword index with pg_textsearch, pg_search, GIN and tantivy
	@scripts/deps.sh
	@benches/run.sh bm25

lint: ## check formatting, clippy, and the install script with pgspot
	@scripts/lint.sh

clean: ## remove everything that was built or fetched (target/, build/)
	rm -rf target build
