#!/bin/sh
# Installs the packages of deb.sh in a fresh Debian, without a network, and uses them:
#
#   test-packages.sh [SUITE...]    bookworm (the default), trixie
#
# The system comes from debootstrap, and is kept in build/roots/. If PG_CONFIG is not of the suite's
# version of PostgreSQL, the extension is built for that, with the headers of the suite. Only root
# can do this: for others nothing is tested. The last line has the number of tests that passed and
# failed.
set -eu
. "$(dirname "$0")/common.sh"

if [ "$(id -u)" != 0 ]; then
    say "packages are not tested: only root can make a system to install them in"
    exit 0
fi
have debootstrap || fail "debootstrap is missing: run 'apt-get install debootstrap' as root"
roots=$build/roots

inside() { # root, command...: runs a command in a system
    root=$1
    shift
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        chroot "$root" "$@"
}

make_root() { # suite
    new=$roots/$1.new
    [ ! -d "$roots/$1" ] || return 0
    say "a system of $1"
    rm -rf "$new" "$roots/$1-headers"
    mkdir -p "$roots"
    {
        debootstrap --variant=minbase "$1" "$new" &&
            # nothing is to start a service
            printf '#!/bin/sh\nexit 101\n' >"$new/usr/sbin/policy-rc.d" &&
            chmod 755 "$new/usr/sbin/policy-rc.d" &&
            inside "$new" apt-get install -y -qq --no-install-recommends postgresql &&
            inside "$new" sh -c \
                'cd /tmp && apt-get download -qq "postgresql-server-dev-$(ls /etc/postgresql)"' &&
            dpkg-deb -x "$new"/tmp/*.deb "$roots/$1-headers" &&
            rm "$new"/tmp/*.deb &&
            mv "$new" "$roots/$1"
    } >"$roots/$1.log" 2>&1 ||
        { tail -n 5 "$roots/$1.log" >&2; fail "could not make a system of $1"; }
}

# Sets config to a pg_config of the version. If PG_CONFIG has another one, it is a script that
# prints where the suite has headers, and else what the suite's own prints.
choose_pg_config() { # suite, version of PostgreSQL
    config=$PG_CONFIG
    case $("$PG_CONFIG" --version) in "PostgreSQL $2."*) return ;; esac
    config=$roots/$1-pg_config
    cat >"$config" <<EOF
#!/bin/sh
chroot $roots/$1 /usr/lib/postgresql/$2/bin/pg_config "\$@" |
    sed 's|/usr/include|$roots/$1-headers/usr/include|'
EOF
    chmod 755 "$config"
}

# Copies packages with a lower version, as if an older release had made them.
make_older() { # folder, version of the packages
    mkdir "$1"
    for file in "$debs"/*.deb; do
        dpkg-deb -R "$file" "$1/files"
        sed -i "s/$2/0.0.9-1/" "$1/files/DEBIAN/control"
        dpkg-deb --root-owner-group -Znone -b "$1/files" "$1" >/dev/null
        rm -rf "$1/files"
    done
}

passed=0
failed=0
for suite in "${@:-bookworm}"; do
    make_root "$suite"
    major=$(ls "$roots/$suite/etc/postgresql")
    debs=$roots/$suite-debs
    if [ ! -d "$debs" ] ||
        [ -n "$(find packaging src sql crates Cargo.lock scripts/deb.sh -newer "$debs")" ]; then
        choose_pg_config "$suite" "$major"
        PG_CONFIG=$config scripts/build.sh
        PG_CONFIG=$config scripts/deb.sh
        # what is built must not be installed for PG_CONFIG
        [ "$config" = "$PG_CONFIG" ] || rm -rf "$build/package"
        rm -rf "$debs"
        mkdir "$debs"
        cp "$build"/deb/*.deb "$debs"
    fi
    say "packages for PostgreSQL $major in $suite"
    root=$roots/$suite.test
    rm -rf "$root"
    cp -a "$roots/$suite" "$root"
    mkdir "$root/packages"
    cp "$debs"/*.deb "$root/packages"
    make_older "$root/packages/older" "$(dpkg-deb -f "$debs"/rag-engine_*.deb Version)"
    cp -R tests/data/handbook tests/data/scan.pdf scripts/test-packages-inside.sh "$root/packages"
    chmod -R a+rX "$root/packages"
    status=0
    # All processes of the system end with it. It has no network but loopback.
    unshare --mount --pid --fork --kill-child --net sh -c '
        ip link set lo up
        mount -t proc proc "$0/proc"
        mount --rbind /dev "$0/dev"
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
            chroot "$0" sh /packages/test-packages-inside.sh' "$root" >"$roots/$suite.out" 2>&1 ||
        status=$?
    grep -E '^(ok|not ok|#)' "$roots/$suite.out" || true
    good=$(grep -c '^ok' "$roots/$suite.out" || true)
    bad=$(grep -c '^not ok' "$roots/$suite.out" || true)
    if [ "$status" != 0 ] || [ "$bad" != 0 ]; then
        tail -n 30 "$roots/$suite.out"
        [ "$bad" != 0 ] || bad=1
    else
        rm -rf "$root"
    fi
    say "packages in $suite: $good passed, $bad failed"
    passed=$((passed + good))
    failed=$((failed + bad))
done
say "packages: $passed passed, $failed failed"
[ "$failed" = 0 ]
