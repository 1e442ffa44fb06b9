#!/bin/sh
# Runs all tests against the installed extension, each kind even where the one before has failed:
#
#   crates        cargo test: what is no part of PostgreSQL
#   tests/sql     pg_regress: statements, whose output must be that of tests/expected
#   tests/t       prove: whole clusters that are started, stopped and broken; --long adds tests/t/long
#
# Arguments name single tests instead of all: test.sh tests/sql/vector.sql tests/t/001_restart.pl
# --accept makes the present output of tests/sql the expected one: read the difference before you
# commit it. The last line says how many passed and how many failed.
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
    [ "$2" = 0 ] || [ "$failures" != 0 ] || failures=1 # it broke off before it could count
    say "$1: $3 passed, $failures failed"
    passed=$((passed + $3))
    failed=$((failed + failures))
}

# Shows the output of a command as it comes and keeps it in a file; the command's status is in
# $status.
logged() {
    log=$1
    shift
    { if "$@" 2>&1; then echo 0 >&3; else echo $? >&3; fi; } 3>"$log.status" | sed -u "/^# issuing query/d" | tee "$log"
    status=$(cat "$log.status")
}

make_scratch test
mkdir "$scratch/log"

test_crates() {
    say "the crates"
    # some ask a server (those that are ignored where there is none), a model, ONNX Runtime or
    # PDFium
    logged "$scratch/log/crates" env PATH="$pg_bindir:$PATH" PGHOST="$scratch" PGUSER=postgres PGDATABASE=postgres \
        RAG_MODEL_DIR="$build/model/$MODEL" RAG_ONNXRUNTIME="$(echo "$build"/model/libonnxruntime.so.*)" \
        RAG_PDFIUM="$(echo "$build"/model/libpdfium.so.*)" \
        cargo test --release --workspace --exclude rag --no-fail-fast -- --include-ignored
    count crates "$status" \
        "$(awk '/^test result:/ { n += $4 } END { print n + 0 }' "$log")" \
        "$(awk '/^test result:/ { n += $6 } END { print n + 0 }' "$log")"
}

# The server's user may not be able to read this repository.
copy_tests() {
    cp -R tests "$scratch/tests"
    rm -rf "$scratch/tests/sql/results"
    mkdir -p "$scratch/output"
    [ -z "$server_user" ] || chown -R "$server_user" "$scratch/tests" "$scratch/output"
}

test_sql() {
    # shellcheck disable=SC2046 # a list of words
    set -- $(for file in ${only:-tests/sql/*.sql}; do case $file in *.sql) basename "$file" .sql ;; esac; done)
    [ $# -gt 0 ] || return 0
    say "SQL in a throwaway PostgreSQL $pg_major"
    for name in "$@"; do
        [ -f "tests/expected/$name.out" ] || : >"$scratch/tests/expected/$name.out"
    done
    logged "$scratch/log/sql" as_server RAG_TEST_FILES="$scratch/tests/data" "$pg_regress" --host="$scratch" --user=postgres \
        --bindir="$pg_bindir" --inputdir="$scratch/tests" --outputdir="$scratch/output" --dbname=regression --encoding=UTF8 \
        --load-extension=rag "$@"
    # "test x ... ok" until PostgreSQL 15, "ok 1 - x" since
    count SQL "$status" \
        "$(grep -cE '^test .* \.\.\. ok|^ok ' "$log" || true)" \
        "$(grep -cE '^test .* \.\.\. FAILED|^not ok ' "$log" || true)"
    if [ -n "$accept" ]; then
        for name in "$@"; do cp "$scratch/output/results/$name.out" "tests/expected/$name.out"; done
    elif [ "$status" != 0 ]; then
        cat "$scratch/output/regression.diffs" 2>/dev/null || tail -n 50 "$scratch/server.log"
    fi
}

test_clusters() {
    # shellcheck disable=SC2086 # lists of words
    set -- $(for file in ${only:-tests/t/*.pl $long}; do case $file in *.pl) [ ! -f "$file" ] || echo "$file" ;; esac; done)
    [ $# -gt 0 ] || return 0
    say "whole clusters"
    if [ ! -f "$pg_perl/PostgreSQL/Test/Cluster.pm" ]; then
        count clusters 1 0 1
        echo "PostgreSQL's Perl modules for tests are not in $pg_perl: this PostgreSQL was built without --enable-tap-tests"
        return 0
    fi
    shared_data=${RAG_TEST_DATA:-$(cd ../shared/data 2>/dev/null && pwd || true)}
    # what of pgxs's make rules the modules expect (until 15: TESTDIR, since 16: TESTDATADIR and
    # TESTLOGDIR)
    logged "$scratch/log/clusters" as_server PERL5LIB="$pg_perl:$scratch/tests/t" PG_REGRESS="$pg_regress" \
        TESTDIR="$scratch/output" TESTDATADIR="$scratch/output/tmp_check" TESTLOGDIR="$scratch/output/log" \
        top_builddir="$scratch/output" RAG_TEST_FILES="$scratch/tests/data" RAG_TEST_DATA="$shared_data" \
        prove --verbose "$@"
    count clusters "$status" "$(grep -c '^ok ' "$log" || true)" "$(grep -c '^not ok ' "$log" || true)"
    for name in $(sed -n 's|^[^ ]*/\([^/ ]*\)\.pl .*(Wstat.*|\1|p' "$log"); do
        # why a test died is in its own log alone
        for file in "$scratch"/output/tmp_check/log/regress_log_"$name" "$scratch"/output/tmp_check/log/"$name"_*.log \
            "$scratch"/output/log/regress_log_"$name" "$scratch"/output/log/"$name"_*.log; do
            [ -f "$file" ] || continue
            echo "-- the end of $(basename "$file")"
            tail -n 150 "$file"
        done
    done
}

pgxs=$(dirname "$("$PG_CONFIG" --pgxs)")
pg_regress=$(cd "$pgxs/../test/regress" && pwd)/pg_regress
pg_perl=$pgxs/../test/perl
[ -x "$pg_regress" ] || fail "there is no $pg_regress: it comes with PostgreSQL's headers"

# sources are synced, and tables vacuumed, when a test says so
start_server "shared_preload_libraries = 'rag'
rag.scheduler = off
autovacuum = off"
[ -n "$only" ] || test_crates
copy_tests
test_sql
stop_server
test_clusters

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
