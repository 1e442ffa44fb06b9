#!/bin/sh
# Compares what an upgrade of each released version leads to with what CREATE EXTENSION creates, and
# prints what differs. `make install` first.
#
#   upgrade.sh            fails if anything differs
#   upgrade.sh --write    adds the statements that are missing to the script in sql/upgrade/ that
#                         leads from the last release to this version, and installs it
#
# "-- BY HAND" in the script marks what cannot be derived. sql/upgrade/README.md describes the rest.
set -eu
. "$(dirname "$0")/common.sh"
. scripts/server.sh

case "${1:-}" in
    '' | --write) ;;
    *) fail "unknown option $1" ;;
esac

version=$(workspace_version)
releases=$(find sql/releases -name 'rag--*.sql.gz' | sed 's/.*rag--\(.*\)\.sql\.gz/\1/' | sort -V)
last=$(echo "$releases" | tail -n 1)
script=sql/upgrade/rag--$last--$version.sql

if [ "${1:-}" = --write ] && [ ! -f "$script" ]; then
    begin_upgrade_script "$last" "$version"
fi

run_sql() { # database, arguments of psql
    database=$1
    shift
    as_server PGOPTIONS="--client-min-messages=warning" psql --dbname="$database" --quiet \
        --no-psqlrc --set=ON_ERROR_STOP=1 "$@"
}

# Creates a database, and describes the extension in it.
create() { # database, statements
    run_sql postgres --command="DROP DATABASE IF EXISTS $1" --command="CREATE DATABASE $1"
    run_sql "$1" --output=/dev/null --command="CREATE SCHEMA extension_schema" --command="$2" \
        --command="$3"
    run_sql "$1" --file=- <tests/t/catalog.sql >"$scratch/$1.catalog"
}

compare() { # function of RagCatalog.pm, database
    perl -Itests/t -MRagCatalog -e '
        my ($function, @files) = @ARGV;
        my @described = map {
            open my $file, "<:encoding(UTF-8)", $_ or die "$_: $!";
            local $/;
            described(<$file>)
        } @files;
        binmode STDOUT, ":encoding(UTF-8)";
        print map { "$_\n" } RagCatalog->can($function)->(@described);' \
        "$1" "$scratch/$2.catalog" "$scratch/fresh.catalog"
}

# Creates the databases, and prints what differs.
compare_all() {
    differences=
    for release in $releases; do
        database=from_$(echo "$release" | tr . _)
        create "$database" "CREATE EXTENSION rag SCHEMA extension_schema VERSION '$release'" \
            "ALTER EXTENSION rag UPDATE"
        found=$(compare catalog_differences "$database")
        [ -z "$found" ] || differences="$differences
$release, after its upgrade to $version:
$found"
    done
}

scripts/install.sh --released
make_scratch upgrade
start_server
create fresh "CREATE EXTENSION rag SCHEMA extension_schema" "SELECT"
compare_all
# A view that was dropped and created again has lost the comments of its columns, for example: a
# second pass finds them.
pass=0
while [ -n "$differences" ] && [ "${1:-}" = --write ] && [ $pass -lt 3 ]; do
    pass=$((pass + 1))
    compare upgrade_statements "$database" >"$scratch/statements"
    cat "$scratch/statements" >>"$script"
    say "$script: $(wc -l <"$scratch/statements") lines added"
    scripts/install.sh --released
    compare_all
done
[ -z "$differences" ] || {
    printf '%s\n' "$differences"
    fail "upgrades lead to another catalog: write $script, or run $0 --write"
}
say "upgrades from $(echo "$releases" | tr '\n' ' ')lead to the catalog of $version"
