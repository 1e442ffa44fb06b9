#!/bin/sh
# Runs the benchmarks that README.md in this folder lists, each step in a throwaway cluster, and
# prints one table.
#
#   benches/run.sh                  the steps of make bench
#   benches/run.sh exact query      only these
#   benches/run.sh hnsw bm25        these, too, which are only run by name
#
# RAG_TEST_DATA names the folder with the data sets. A step without its data is skipped.
set -eu
. "$(dirname "$0")/../scripts/common.sh"
. scripts/server.sh

usual_steps="reading embedding query memory unchanged git exact scifact scheduler collections"
named_steps="planner store rerank remote answers hybrid strategies lifecycle table-trigger"
named_steps="$named_steps hnsw hnsw-growth bm25 languages words weights formats gateway"
named_steps="$named_steps citus office sizing"
all_steps="$usual_steps $named_steps"
steps=${*:-$usual_steps}
for step in $steps; do
    case " $all_steps " in
        *" $step "*) ;;
        *) fail "unknown step $step; the steps are: $all_steps" ;;
    esac
done

bench=$build/bench
mkdir -p "$bench"
results=$bench/results.jsonl
: >"$results"
data=${RAG_TEST_DATA:-$build/data}
text=${BENCH_TEXT:-$bench/text}

# Installs the programs to compare with, in a folder of their own.
install_python() { # requirements, folder
    if cmp -s "$1" "$bench/$2/$(basename "$1")"; then return; fi
    have python3 || fail "python3 is missing: run 'make deps'"
    say "Python packages to compare with"
    rm -rf "${bench:?}/$2"
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
        --no-warn-script-location --root-user-action=ignore --target "$bench/$2" \
        -r "$1" || fail "pip could not install $1"
    cp "$1" "$bench/$2/"
}

# Runs one step against the running server.
measure() { # step
    PATH=$pg_bindir:$PATH PYTHONPATH=$root/benches:$bench/python \
        PYTHONDONTWRITEBYTECODE=1 TOKENIZERS_PARALLELISM=true \
        BENCH_SCRATCH=$scratch BENCH_RESULTS=$results BENCH_DATA=$data BENCH_MODEL=$model \
        BENCH_TEXT=$text BENCH_TANTIVY=$bench/tantivy/release/tantivy-peer \
        BENCH_OPENVINO=$pg_libdir/rag/openvino/libopenvino_c.so \
        BENCH_PDFIUM=$(echo "$build"/model/libpdfium.so.*) \
        BENCH_ACCURACY=$target/release/examples/accuracy \
        BENCH_FORMATS=$bench/formats BENCH_TIMED=$target/release/examples/timed \
        BENCH_OVERHEAD=$target/release/examples/overhead \
        BENCH_READING=$target/release/examples/reading python3 "benches/steps/$1.py" || {
        tail -n 30 "$scratch/server.log" >&2
        fail "step $1 failed; the end of the server's log is above"
    }
}

# Makes the text of the step bm25 and builds tantivy.
prepare_text() {
    say "text of Debian's documentation packages"
    mkdir -p "$text"
    PYTHONPATH=$root/benches PYTHONDONTWRITEBYTECODE=1 python3 -m keywords.corpus "$text" ||
        fail "could not make the text; does 'apt-get update' help?"
    say "tantivy"
    CARGO_TARGET_DIR=$bench/tantivy cargo build --quiet --release --locked \
        --manifest-path benches/tantivy/Cargo.toml
}

# The graphs that the server reads.
model=$pg_sharedir/rag/models/$MODEL

citus_settings="max_prepared_transactions = 60
max_worker_processes = 20
wal_level = logical
citus.node_conninfo = 'sslmode=disable'"

# Starts a cluster for Citus beside that of the step.
start_worker() { # number
    folder=$scratch/worker$1
    as_server initdb --pgdata="$folder" --username=postgres --auth=trust --no-locale \
        --encoding=UTF8 --no-sync >"$scratch/initdb.log" 2>&1 || fail "initdb failed"
    printf '%s\n' "listen_addresses = ''" "unix_socket_directories = '$scratch'" \
        "port = $((5432 + $1))" "shared_preload_libraries = 'citus'" "fsync = on" \
        "max_connections = 60" "shared_buffers = 512MB" "max_wal_size = 4GB" \
        "citus.local_hostname = '$scratch'" "$citus_settings" >>"$folder/postgresql.conf"
    as_server pg_ctl --pgdata="$folder" --log="$scratch/worker$1.log" --wait --silent start ||
        fail "worker $1 did not start"
}

stop_worker() { # number
    [ ! -f "$scratch/worker$1/postmaster.pid" ] ||
        as_server pg_ctl --pgdata="$scratch/worker$1" --mode=fast --wait --silent stop
}

run_step() ( # in a subshell: the cluster ends with it
    case $1 in
        embedding | query | scifact | store | rerank | remote | answers | words | weights)
            needs=$data/ir/scifact/corpus.jsonl
            ;;
        exact | hnsw* | hybrid | lifecycle | citus | sizing) needs=$data/ann/minilm-100k.json ;;
        *) needs=benches ;;
    esac
    if [ ! -e "$needs" ]; then
        say "step $1: skipped, $needs is missing (RAG_TEST_DATA names the folder of the data sets)"
        return 0
    fi
    if [ "$1" = bm25 ] && ! have apt-get && [ ! -e "$text/chunks.tsv" ]; then
        say "step $1: skipped, its text is made with apt-get of Debian 12"
        return 0
    fi
    if [ "$1" = citus ] && [ ! -f "$pg_libdir/citus.so" ]; then
        say "step $1: skipped, Citus is not installed (see scripts/citus.sh)"
        return 0
    fi
    other= # a PostgreSQL with extensions to compare with
    case $1 in
        exact | hnsw*) other=18 ;;
        bm25) other=${BENCH_BM25_POSTGRESQL:-17} ;;
    esac
    if [ -n "$other" ]; then
        if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
            say "step $1: skipped, its PostgreSQL is pinned for Linux on x86_64 only"
            return 0
        fi
        benches/postgresql.sh $other "$bench/postgresql$other"
    fi
    [ "$1" != bm25 ] || prepare_text
    [ "$1" != reading ] || cargo build --quiet --release -p rag-engine --example reading
    case $1 in formats | office) install_python benches/formats.txt formats ;; esac
    [ "$1" != formats ] || cargo build --quiet --release -p rag-document --example timed
    [ "$1" != gateway ] || cargo build --quiet --release -p rag-gateway --example overhead
    [ "$1" != languages ] || cargo build --quiet --release -p rag-language --example accuracy
    say "step $1"
    make_scratch "bench-$1"
    # Sources are synced only when a step says so.
    preload="shared_preload_libraries = 'rag'
rag.scheduler = off"
    sizes="shared_buffers = 1GB
max_wal_size = 4GB"
    if [ -n "$other" ]; then
        # Beside the cluster, where its user may read it.
        cp -R "$bench/postgresql$other" "$scratch/postgresql"
        chmod -R a+rX "$scratch/postgresql"
        PG_CONFIG=$scratch/postgresql/install/bin/pg_config
        read_pg_config
    fi
    case $1 in
        scheduler) preload="shared_preload_libraries = 'rag'
max_worker_processes = 30" ;;
        citus) preload="shared_preload_libraries = 'citus, rag'
rag.scheduler = off
citus.local_hostname = '$scratch'
$citus_settings" ;;
        memory) preload= ;; # a backend then also loads the library
        exact | hnsw*) preload= ;;
        bm25) # one of its peers must be preloaded
            preload=
            [ ! -e "$pg_libdir/pg_textsearch.so" ] ||
                preload="shared_preload_libraries = 'pg_textsearch'"
            ;;
    esac
    # All that a query touches is in memory, and nothing runs in the background.
    case $1 in hnsw* | bm25)
        sizes="shared_buffers = 4GB
max_wal_size = 16GB
checkpoint_timeout = 1h
autovacuum = off"
        ;;
    esac
    # fsync is on, as on a production server.
    start_server "$preload" "fsync = on" "$sizes" "max_connections = 60" "rag.engine_threads = 2"
    if [ "$1" = citus ]; then
        trap 'for n in 1 2 3; do stop_worker $n; done; leave' EXIT
        for n in 1 2 3; do start_worker $n; done
    fi
    measure "$1"
)

install_python benches/requirements.txt python
for step in $steps; do run_step "$step"; done
PYTHONDONTWRITEBYTECODE=1 python3 benches/support/table.py "$results"
