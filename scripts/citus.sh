#!/bin/sh
# Builds Citus, and installs it into the PostgreSQL that PG_CONFIG belongs to. Tests of scale-out
# need it; everything else does without. It takes about four minutes.
#
#   RAG_CITUS_SOURCE   Citus's source, as a .tar.xz or .tar.gz. Patches beside it that are named
#                      citus-pg*.patch are applied, each to the PostgreSQL that it names
#
# Does nothing if Citus is installed.
set -eu
. "$(dirname "$0")/common.sh"

read_pg_config
if [ -f "$pg_libdir/citus.so" ] && [ -f "$pg_sharedir/extension/citus.control" ]; then
    say "Citus is installed for PostgreSQL $pg_major"
    exit 0
fi
[ -n "${RAG_CITUS_SOURCE:-}" ] || fail "RAG_CITUS_SOURCE must name the file with Citus's source"
[ -f "$RAG_CITUS_SOURCE" ] || fail "$RAG_CITUS_SOURCE is missing"
pg_has_headers || fail "the headers of PostgreSQL $pg_major are missing: run 'make deps'"

# The libraries that Citus and the server's headers need. Debian's names.
packages=
for package in liblz4-dev libzstd-dev flex libkrb5-dev libselinux1-dev libpam0g-dev; do
    ! have dpkg-query || dpkg-query --status "$package" >/dev/null 2>&1 ||
        packages="$packages $package"
done
if [ -n "$packages" ]; then
    have apt-get && [ "$(id -u)" = 0 ] ||
        fail "these packages are missing (Debian's names):$packages"
    say "apt-get install$packages"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends $packages; } \
        >/dev/null || fail "apt-get install failed (see above)"
fi

folder=$build/citus
rm -rf "$folder"
mkdir -p "$folder"
say "Citus for PostgreSQL $pg_major (some minutes)"
tar --extract --file="$RAG_CITUS_SOURCE" --directory="$folder" --strip-components=1
server_version=$("$PG_CONFIG" --version | sed 's/^PostgreSQL \([0-9.]*\).*/\1/')
for patch in "$(dirname "$RAG_CITUS_SOURCE")"/citus-pg"$server_version".patch; do
    [ ! -f "$patch" ] || patch --quiet --directory="$folder" --strip=1 <"$patch"
done
cd "$folder"
touch configure # newer than its source, or make looks for autoconf
{
    ./configure PG_CONFIG="$PG_CONFIG" --without-libcurl &&
        make -j"$(nproc)" extension && make install-extension
} >"$build/citus.log" 2>&1 || {
    tail -n 30 "$build/citus.log" >&2
    fail "could not build Citus"
}
rm -rf "$folder"
say "installed Citus into $pg_libdir and $pg_sharedir"
