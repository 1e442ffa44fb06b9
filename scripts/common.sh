# Sourced by the other scripts, which run in the repository's root.
# shellcheck shell=sh

PGRX_VERSION=0.18.1
MODEL=all-MiniLM-L6-v2
# What a server reads of the model's folder.
MODEL_FILES="model.onnx model_int8.onnx config.json tokenizer.json sentence_bert_config.json modules.json 1_Pooling/config.json"

cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
target=${CARGO_TARGET_DIR:-$root/target}
build=$root/build
: "${PG_CONFIG:=pg_config}"

say() { printf '== %s\n' "$*"; }
fail() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# rustup and `cargo install` put programs here, and not every shell has it in its PATH; a cargo-pgrx
# that deps.sh had to keep apart from the user's own comes first.
PATH=$build/tools/bin:$PATH
have cargo || PATH=$PATH:$HOME/.cargo/bin
export PATH

# Sets pg_major and the folders of the PostgreSQL that PG_CONFIG names.
read_pg_config() {
    have "$PG_CONFIG" || fail "there is no $PG_CONFIG; run 'make deps', or name PostgreSQL's pg_config with PG_CONFIG=..."
    PG_CONFIG=$(command -v "$PG_CONFIG")
    pg_major=$("$PG_CONFIG" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
    pg_bindir=$("$PG_CONFIG" --bindir)
    pg_libdir=$("$PG_CONFIG" --pkglibdir)
    pg_sharedir=$("$PG_CONFIG" --sharedir)
    # pgrx's build script looks this one up in its registry (cargo pgrx init) or here. Where it is
    # registered the variable stays unset, so that a plain cargo build and these scripts do not
    # rebuild everything after each other.
    if ! grep -qsx "pg$pg_major = \"$PG_CONFIG\"" "${PGRX_HOME:-$HOME/.pgrx}/config.toml"; then
        export PGRX_PG_CONFIG_PATH="$PG_CONFIG"
    fi
}

pg_has_headers() { [ -f "$("$PG_CONFIG" --includedir-server)/postgres.h" ]; }
