#!/bin/sh
# Runs a fuzz target of fuzz/fuzz_targets:  scripts/fuzz.sh [TARGET [SECONDS [FOLDER...]]]
#
# It begins with the inputs of the folders, of fuzz/seeds, and with those that earlier runs found.
# Uses the instrumentation of cargo-fuzz without a sanitizer, which the stable compiler can build.
set -eu
. "$(dirname "$0")/common.sh"

target=${1:-hnsw_pages}
seconds=${2:-60}
[ $# -lt 1 ] || shift
[ $# -lt 1 ] || shift
host=$(rustc -vV | sed -n 's/^host: //p')
corpus=$build/fuzz/$target
mkdir -p "$corpus"
[ ! -d "fuzz/seeds/$target" ] || set -- "$@" "fuzz/seeds/$target"
flags="--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module"
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    flags="$flags -Cllvm-args=-sanitizer-coverage-$option"
done
RUSTFLAGS=$flags cargo run --quiet --release --manifest-path fuzz/Cargo.toml \
    --target-dir "$build/fuzz/target" --target "$host" --bin "$target" -- \
    "$corpus" "$@" -max_total_time="$seconds" -timeout=20 -artifact_prefix="$corpus-"
