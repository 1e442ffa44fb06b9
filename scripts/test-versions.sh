#!/bin/sh
# Runs the tests of SQL and of clusters with PostgreSQL 16, 17 and 18, or with those that are named:
#
#   test-versions.sh [VERSION...] [TEST...]
#
# Fetches each server into build/postgresql/, and builds and installs the extension for it. TESTs
# are files as for test.sh; by default all but the one that needs Citus. The last lines have the
# numbers of tests of each version.
#
# What a newer version prints differently is in tests/expected/postgresql-VERSION.patch.
set -eu
. "$(dirname "$0")/common.sh"

versions=
tests=
for argument in "$@"; do
    case $argument in
        16 | 17 | 18) versions="$versions $argument" ;;
        *.sql | *.pl) tests="$tests $argument" ;;
        *) fail "unknown argument $argument" ;;
    esac
done

summary=
failed=0
for version in ${versions:-16 17 18}; do
    folder=$build/postgresql/$version
    scripts/postgresql.sh "$version" "$folder"
    log=$build/postgresql/$version.log
    (
        export PG_CONFIG="$folder/install/bin/pg_config"
        # shellcheck disable=SC2086 # a list of words
        scripts/build.sh && scripts/install.sh &&
            scripts/test.sh ${tests:-$(ls tests/sql/*.sql tests/t/*.pl | grep -v citus)}
    ) 2>&1 | tee "$log"
    result=$(tail -n 1 "$log")
    case $result in
        *" passed, 0 failed") ;;
        *) failed=1 ;;
    esac
    summary="$summary
PostgreSQL $version: $result"
done
# An install of another version left the package of the last one.
rm -rf "$build/package"
say "all versions$summary"
exit $failed
