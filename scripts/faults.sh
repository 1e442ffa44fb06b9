#!/bin/sh
# Runs the fault campaign against the installed extension: servers under load, faults, and checks.
#   scripts/faults.sh [--seed N] [--faults N] [--suite NAME] [--go-on]
# The seed chooses the faults and what clients do: another run with it repeats them, though not to
# the millisecond. Suites are the files of tests/faults. Prints a line for each fault, and a report.
# If something is wrong, the campaign ends there, unless it is to go on, and its folder with data
# directories, logs and journals is kept. tests/README.md has more.
set -eu
. "$(dirname "$0")/common.sh"

seed=$(date +%s)
faults=100
suite=kill
go_on=
while [ $# -gt 0 ]; do
    case $1 in
        --seed) seed=$2 ;;
        --faults) faults=$2 ;;
        --suite) suite=$2 ;;
        --go-on) go_on=1; shift; continue ;;
        *) fail "unknown argument $1" ;;
    esac
    shift 2
done
. scripts/server.sh

perl -MTOML::Tiny -e 1 2>/dev/null || fail "TOML::Tiny is missing (Debian: libtoml-tiny-perl)"
pgxs=$(dirname "$("$PG_CONFIG" --pgxs)")
make_scratch faults
cp -R tests "$scratch/tests"
mkdir "$scratch/output"
[ -z "$server_user" ] || chown -R "$server_user" "$scratch/tests" "$scratch/output"
as_server initdb --pgdata="$scratch/template" --auth=trust --no-locale --encoding=UTF8 --no-sync \
    >"$scratch/initdb.log" 2>&1
status=0
as_server PERL5LIB="$pgxs/../test/perl:$scratch/tests/t" \
    PG_REGRESS="$pgxs/../test/regress/pg_regress" \
    TESTDIR="$scratch/output" TESTDATADIR="$scratch/output/tmp_check" \
    TESTLOGDIR="$scratch/output/log" top_builddir="$scratch/output" \
    RAG_TEST_TEMPLATE="$scratch/template" RAG_TEST_FILES="$scratch/tests/data" \
    RAG_FAULTS_SEED="$seed" RAG_FAULTS="$faults" RAG_FAULTS_SUITE="$suite" \
    RAG_FAULTS_GO_ON="$go_on" \
    PG_TEST_NOCLEAN=1 perl "$scratch/tests/t/long/faults.pl" || status=$?
if [ "$status" != 0 ]; then
    trap - EXIT
    say "kept: $scratch"
fi
exit "$status"
