#!/bin/sh
# Installs what building and testing need and this machine lacks. Prints nothing if nothing is
# missing.
set -eu
. "$(dirname "$0")/common.sh"

# Packages for apt-get, and the same list with reasons for people without apt-get.
packages=
wanted=
want() { # package, purpose
    packages="$packages $1"
    wanted="$wanted
  $1: $2"
}

have cc && have make || want build-essential "C compiler and make"
have clang || want clang "reads PostgreSQL's headers"
libclang=$(find /usr/lib/llvm-*/lib /usr/lib /usr/lib64 /usr/lib/*-linux-gnu -maxdepth 1 \
    -name 'libclang*.so*' 2>/dev/null | head -n 1)
[ -n "${LIBCLANG_PATH:-}$libclang" ] ||
    want libclang-dev "reads PostgreSQL's headers"
have pkg-config || want pkg-config "finds OpenSSL"
pkg-config --exists openssl 2>/dev/null || want libssl-dev "OpenSSL, for cargo-pgrx"
have git || want git "version control"
have python3 || want python3 "fetches the model"
{ have python3 && python3 -m pip --version >/dev/null 2>&1; } ||
    want python3-pip "fetches the model"
perl -MIPC::Run -e 1 2>/dev/null || want libipc-run-perl "tests of whole clusters"
perl -MTOML::Tiny -e 1 2>/dev/null || want libtoml-tiny-perl "reads suites of faults"
have prove || want perl "runs the tests of whole clusters"
# Where systemd runs, the package would start a server. The tests that need it are skipped there.
[ -x /usr/sbin/sshd ] || [ -d /run/systemd/system ] || want openssh-server "tests of git over ssh"

if have "$PG_CONFIG"; then
    read_pg_config
    pg_has_headers ||
        want "postgresql-server-dev-$pg_major" "PostgreSQL's headers and test programs"
    [ -x "$pg_bindir/initdb" ] || want "postgresql-$pg_major" "PostgreSQL itself"
elif [ "$PG_CONFIG" = pg_config ]; then
    want postgresql "PostgreSQL itself (the distribution's version)"
    want postgresql-server-dev-all "PostgreSQL's headers and test programs"
else
    fail "$PG_CONFIG is missing: PG_CONFIG must name PostgreSQL's pg_config program"
fi

if [ -n "$packages" ]; then
    if ! have apt-get; then
        fail "these packages are missing (Debian's names); install them and make again:$wanted"
    elif [ "$(id -u)" = 0 ]; then
        sudo=
    elif sudo -n true 2>/dev/null; then
        sudo="sudo -n"
    else
        fail "these packages are missing:$wanted
run this as root and make again:
  apt-get update && apt-get install --no-install-recommends$packages"
    fi
    say "apt-get install$packages$wanted"
    export DEBIAN_FRONTEND=noninteractive
    $sudo apt-get update -qq || fail "apt-get update failed"
    # shellcheck disable=SC2086 # a list of words
    $sudo env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends $packages >/dev/null ||
        fail "apt-get install failed (see above)"
    read_pg_config
    pg_has_headers ||
        fail "$PG_CONFIG has no headers: install postgresql-server-dev-$pg_major or set PG_CONFIG"
fi

# Its package would start a server, so the programs are unpacked only. Tests that need them are
# skipped without them.
if ! have promtool && ! [ -x "$build/prometheus/usr/bin/promtool" ] &&
    have apt-get && have dpkg; then
    say "Prometheus, for tests of metrics"
    mkdir -p "$build/prometheus"
    (cd "$build/prometheus" && apt-get -qq download prometheus 2>/dev/null &&
        dpkg -x prometheus_*.deb . && rm prometheus_*.deb) || say "Prometheus could not be fetched"
fi

have cargo || fail "Rust is missing: install it from https://rustup.rs and make again"
wanted_rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
present_rust=$(rustc --version | cut -d ' ' -f 2)
[ "$(printf '%s\n%s\n' "$wanted_rust" "$present_rust" | sort -V | head -n 1)" = "$wanted_rust" ] ||
    fail "Rust $present_rust is too old: $wanted_rust or newer is needed (rustup update)"

present_pgrx=$(cargo pgrx --version 2>/dev/null | cut -d ' ' -f 2 || true)
if [ "$present_pgrx" != "$PGRX_VERSION" ]; then
    # Another project may need the version that is installed: keep it.
    place=
    [ -z "$present_pgrx" ] || place="--root $build/tools"
    say "cargo install cargo-pgrx --version $PGRX_VERSION --locked $place (some minutes)"
    # shellcheck disable=SC2086 # a list of words
    cargo install --quiet cargo-pgrx --version "$PGRX_VERSION" --locked $place ||
        fail "could not install cargo-pgrx (see above)"
fi
