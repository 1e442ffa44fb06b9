# Sourced after common.sh by scripts that need a throwaway PostgreSQL server.
# shellcheck shell=sh
#
# PostgreSQL refuses to run as root: there everything runs as the user postgres, or else nobody.
# All files are in one folder of that user in TMPDIR, which is removed at the end. The server only
# listens on a Unix socket in that folder.

read_pg_config
background= # a process that ends with the script
server_user=
if [ "$(id -u)" = 0 ]; then
    server_user=postgres
    id "$server_user" >/dev/null 2>&1 || server_user=nobody
fi

# as_server [NAME=VALUE...] command...: runs a command as the server's user, in the scratch folder,
# without this shell's environment.
as_server() {
    (exec_as_server "$@")
}

# Becomes such a command, for example in the background: $! is the command itself then.
exec_as_server() {
    set -- env -i PATH="$pg_bindir:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin" LC_ALL=C \
        HOME="$scratch" TMPDIR="$scratch" PGHOST="$scratch" PGUSER=postgres PGDATABASE=postgres \
        PGCLIENTENCODING=UTF8 PSQLRC=/dev/null "$@"
    cd "$scratch"
    if [ -z "$server_user" ]; then
        exec "$@"
    elif have setpriv; then
        group=$(id -g "$server_user")
        exec setpriv --reuid "$server_user" --regid "$group" --init-groups "$@"
    else
        exec runuser -u "$server_user" -- "$@"
    fi
}

# Creates the scratch folder. It is removed when the script ends, after its server was stopped.
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
        as_server true 2>/dev/null ||
            fail "the user $server_user cannot enter $scratch: set TMPDIR to another folder"
    fi
}

leave() {
    status=$?
    trap - EXIT HUP INT TERM
    [ -z "$background" ] || kill "$background" 2>/dev/null || true
    stop_server || true
    rm -rf "$scratch"
    exit $status
}

# Creates a cluster and starts it. The arguments are lines for its postgresql.conf.
start_server() {
    as_server initdb --pgdata="$scratch/data" --username=postgres --auth=trust --no-locale \
        --encoding=UTF8 --no-sync >"$scratch/initdb.log" 2>&1 ||
        { cat "$scratch/initdb.log" >&2; fail "initdb failed"; }
    printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$scratch'" "fsync = off" \
        "$@" >>"$scratch/data/postgresql.conf"
    as_server pg_ctl --pgdata="$scratch/data" --log="$scratch/server.log" --wait --silent start || {
        tail -n 50 "$scratch/server.log" >&2
        fail "the server did not start"
    }
}

stop_server() {
    [ ! -f "$scratch/data/postmaster.pid" ] ||
        as_server pg_ctl --pgdata="$scratch/data" --mode=fast --wait --silent stop
}
