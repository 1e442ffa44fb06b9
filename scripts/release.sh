#!/bin/sh
# Keeps what tests of later versions need of a release, in the commit that is tagged.
# CONTRIBUTING.md describes all steps. `make install` and all tests come first.
#
#   release.sh                keeps the release of this version: its install script in
#                             sql/releases/, and a dump and files of indexes in tests/data/upgrade/
#   release.sh --next 0.3.0   begins the next version, in the manifests of Cargo and of the clients
set -eu
. "$(dirname "$0")/common.sh"
. scripts/server.sh

version=$(workspace_version)

keep_release() {
    script=$(find "$build/package" -name "rag--$version.sql")
    [ -n "$script" ] || fail "there is no rag--$version.sql in $build/package: run 'make install'"
    [ ! -f "sql/releases/rag--$version.sql.gz" ] || fail "$version is released already"
    grep -q "^## \[$version\] - 20[0-9-]*$" CHANGELOG.md ||
        fail "CHANGELOG.md lacks the line '## [$version] - $(date +%F)'"
    kept=tests/data/upgrade/$version
    mkdir -p sql/releases "$kept"

    make_scratch release
    start_server "shared_preload_libraries = 'rag'" "rag.scheduler = off"
    psql="psql --quiet --no-psqlrc --set=ON_ERROR_STOP=1"
    # shellcheck disable=SC2086 # a list of words
    as_server $psql --command="CREATE EXTENSION rag" --command="VACUUM"
    # shellcheck disable=SC2086
    as_server $psql --output=/dev/null <tests/data/upgrade/fill.sql
    as_server pg_dump >"$scratch/dump"
    gzip --no-name -9 <"$scratch/dump" >"$kept/dump.sql.gz"
    cp "$scratch/data/pg_rag/secret.key" "$kept/secret.key"
    chmod 644 "$kept/secret.key"
    for index in item_vector item_body; do
        path=$(as_server psql --no-psqlrc --tuples-only --no-align \
            --command="SELECT pg_relation_filepath('$index')")
        as_server psql --quiet --no-psqlrc --command=CHECKPOINT
        gzip --no-name -9 <"$scratch/data/$path" >"$kept/$index.gz"
    done
    gzip --no-name -9 <"$script" >"sql/releases/rag--$version.sql.gz"
    {
        sha256sum sql/releases/*.gz "$kept"/*
        find sql/upgrade -name 'rag--*.sql' -exec sha256sum {} +
    } | sort -k 2 >sql/releases/new
    # what was released before must not have changed
    if [ -f sql/releases/SHA256SUMS ]; then sha256sum --check --quiet sql/releases/SHA256SUMS; fi
    cat sql/releases/new sql/releases/SHA256SUMS 2>/dev/null | sort -u -k 2 >sql/releases/all
    mv sql/releases/all sql/releases/SHA256SUMS
    rm sql/releases/new
    say "$version is kept in sql/releases and $kept: commit, tag, then release.sh --next VERSION"
}

begin_next() { # version
    [ -f "sql/releases/rag--$version.sql.gz" ] || fail "$version is not released: run release.sh"
    sed -i "s/^version = \"$version\"/version = \"$1\"/" Cargo.toml clients/python/pyproject.toml
    sed -i "s/^__version__ = \"$version\"/__version__ = \"$1\"/" \
        clients/python/src/rag_postgresql/__init__.py
    for file in clients/js/package.json META.json packaging/rpm/rag.spec; do
        [ ! -f "$file" ] || sed -i -e "s/\"version\": \"$version\"/\"version\": \"$1\"/" \
            -e "s/^\(Version: *\)$version$/\1$1/" "$file"
    done
    cargo update --workspace --quiet
    (cd fuzz && cargo update --workspace --quiet)
    begin_upgrade_script "$version" "$1"
    say "$1 begins: build, then scripts/test.sh --accept and scripts/docs.sh for what prints it"
}

case "${1:-}" in
    '') keep_release ;;
    --next) begin_next "${2:?}" ;;
    *) fail "unknown option $1" ;;
esac
