#!/bin/sh
# Makes Debian packages of what build.sh has built, in build/deb/:
#
#   postgresql-NN-rag    the extension for the PostgreSQL that PG_CONFIG belongs to
#   rag-engine           rag-engine, ONNX Runtime, PDFium
#   rag-model-minilm     the model all-MiniLM-L6-v2
#   rag-gateway          rag-gateway, its unit for systemd and its settings
#
# install.sh puts the files into a folder, and packaging/debian says which package has which. Fails
# on errors of lintian.
set -eu
. "$(dirname "$0")/common.sh"

read_pg_config
[ "$pg_libdir:$pg_sharedir" = \
    "/usr/lib/postgresql/$pg_major/lib:/usr/share/postgresql/$pg_major" ] ||
    fail "packages are for Debian's PostgreSQL, and $PG_CONFIG is of one in $pg_bindir"
missing=
for need in dpkg-buildpackage:dpkg-dev dh:debhelper help2man:help2man lintian:lintian; do
    have "${need%:*}" || missing="$missing ${need#*:}"
done
[ -z "$missing" ] || fail "missing: run 'apt-get install --no-install-recommends$missing' as root"

version=$(workspace_version)
maintainer=$(sed -n 's/^Maintainer: //p' packaging/debian/control.in)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
tree=$build/deb/rag
debian=$tree/debian
rm -rf "$tree" "$build/deb/"*"_$version-"*
mkdir -p "$tree"
scripts/licences.sh
cp -R packaging/debian "$debian"
DESTDIR=$debian/tmp scripts/install.sh

# The files of the package whose name has PostgreSQL's version.
for file in "$debian"/postgresql-rag.*; do
    mv "$file" "$debian/postgresql-$pg_major-rag.${file##*/postgresql-rag.}"
done
for file in "$debian"/*.in; do
    sed "s/@PG@/$pg_major/g" "$file" >"${file%.in}"
    rm "$file"
done
cat >"$debian/changelog" <<EOF
rag ($version-1) unstable; urgency=medium

  * Version $version. changelog.gz has what is new.

 -- $maintainer  $(date --rfc-email --date="@$SOURCE_DATE_EPOCH")
EOF
cp CHANGELOG.md "$tree/CHANGELOG"
cp -R "$build/model/licences" "$build/model/$MODEL/README.md" "$build"/licences/rag* "$tree"

say "Debian packages of $version for PostgreSQL $pg_major"
(cd "$tree" && PG_LIBDIR=$pg_libdir VERSION=$version \
    dpkg-buildpackage --build=binary --no-sign --no-pre-clean --no-check-builddeps) \
    >"$build/deb/log" 2>&1 || { cat "$build/deb/log" >&2; fail "could not make the packages"; }
rm -rf "$tree"
# lintian does not want to be root
say "lintian"
lintian --allow-root --fail-on error "$build"/deb/*.changes ||
    fail "lintian found errors in the packages"
ls -sh "$build"/deb/*.deb
