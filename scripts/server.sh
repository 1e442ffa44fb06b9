# Sourced after common.sh by what needs a PostgreSQL server of its own for a while.
# shellcheck shell=sh
#
# A server refuses to run as root: as root everything here runs as the user postgres, else nobody.
# Everything is in one folder of that user's in TMPDIR, reachable through a Unix socket in it only,
# and gone in the end.

read_pg_config
server_user=
if [ "$(id -u)" = 0 ]; then
    server_user=postgres
    id "$server_user" >/dev/null 2>&1 || server_user=nobody
fi

# Runs a command as the server's user, in the scratch folder, without this shell's environment:
# as_server [NAME=VALUE...] command...
as_server() {
    set -- env -i PATH="$pg_bindir:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin" HOME="$scratch" TMPDIR="$scratch" LC_ALL=C \
        PGHOST="$scratch" PGUSER=postgres PGDATABASE=postgres PGCLIENTENCODING=UTF8 PSQLRC=/dev/null "$@"
    if [ -z "$server_user" ]; then
        (cd "$scratch" && exec "$@")
    elif have setpriv; then
        (cd "$scratch" && exec setpriv --reuid "$server_user" --regid "$(id -g "$server_user")" --init-groups "$@")
    else
        (cd "$scratch" && exec runuser -u "$server_user" -- "$@")
    fi
}

# Makes the scratch folder, which goes away with this script and with it the server that runs in it.
make_scratch() {
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/rag-$1.XXXXXX")
    scratch=$(cd "$scratch" && pwd -P)
    trap leave EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    [ ${#scratch} -le 80 ] || fail "TMPDIR is too long for a Unix socket: $scratch"
    if [ -n "$server_user" ]; then
        chown "$server_user:$(id -g "$server_user")" "$scratch"
        as_server true 2>/dev/null || fail "the user $server_user cannot reach $scratch: set TMPDIR to a folder that everybody may enter"
    fi
}

leave() {
    status=$?
    trap - EXIT HUP INT TERM
    stop_server || true
    rm -rf "$scratch"
    exit $status
}

# Makes a cluster and starts it; the arguments are lines of its postgresql.conf.
start_server() {
    as_server initdb --pgdata="$scratch/data" --username=postgres --auth=trust --no-locale --encoding=UTF8 --no-sync \
        >"$scratch/initdb.log" 2>&1 || { cat "$scratch/initdb.log" >&2; fail "initdb failed"; }
    printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$scratch'" "fsync = off" "$@" >>"$scratch/data/postgresql.conf"
    as_server pg_ctl --pgdata="$scratch/data" --log="$scratch/server.log" --wait --silent start ||
        { tail -n 50 "$scratch/server.log" >&2; fail "the server did not start"; }
}

stop_server() {
    [ ! -f "$scratch/data/postmaster.pid" ] || as_server pg_ctl --pgdata="$scratch/data" --mode=fast --wait --silent stop
}
