#!/bin/sh
# Makes RPM packages of what build.sh has built, in build/rpm/: those of deb.sh, for the PostgreSQL
# that PG_CONFIG belongs to. packaging/rpm/rag.spec says which package has which file.
set -eu
. "$(dirname "$0")/common.sh"

read_pg_config
have rpmbuild || fail "rpmbuild is missing: install rpm-build (Debian: rpm)"
say "RPM packages for PostgreSQL $pg_major"
rm -rf "$build/rpm"
mkdir -p "$build/rpm"
# What the spec needs to build comes from `make deps`, not from packages. Model and libraries are
# large and do not shrink: the fast compression is enough.
rpmbuild -bb --build-in-place --nodeps --define "_topdir $build/rpm" \
    --define "pg_config $PG_CONFIG" --define "_binary_payload w3.zstdio" \
    packaging/rpm/rag.spec >"$build/rpm/log" 2>&1 ||
    { tail -n 20 "$build/rpm/log" >&2; fail "could not make the packages"; }
mv "$build"/rpm/RPMS/*/*.rpm "$build/rpm/"
rm -rf "$build"/rpm/[A-Z]*
ls -sh "$build"/rpm/*.rpm
