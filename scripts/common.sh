# Sourced by the other scripts. Changes to the repository's root.
# shellcheck shell=sh

PGRX_VERSION=0.18.1
MODEL=all-MiniLM-L6-v2
# The files that a server reads from the model's folder.
MODEL_FILES="model.onnx model_int8.onnx config.json tokenizer.json sentence_bert_config.json"
MODEL_FILES="$MODEL_FILES modules.json 1_Pooling/config.json"

cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
target=${CARGO_TARGET_DIR:-$root/target}
build=$root/build
: "${PG_CONFIG:=pg_config}"

say() { printf '== %s\n' "$*"; }
fail() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# deps.sh installs cargo-pgrx into build/tools if the user has another version of it. rustup and
# `cargo install` use ~/.cargo/bin, which not every shell has in its PATH.
PATH=$build/tools/bin:$PATH
have cargo || PATH=$PATH:$HOME/.cargo/bin
export PATH

workspace_version() { # prints the version of all that is built
    sed -n '/^\[workspace.package\]/,/^version/s/^version = "\(.*\)"/\1/p' Cargo.toml
}

begin_upgrade_script() { # FROM, TO: writes the script in sql/upgrade/ that does nothing yet
    cat >"sql/upgrade/rag--$1--$2.sql" <<END
-- $1 to $2.
\\echo Use "ALTER EXTENSION rag UPDATE TO '$2'" to load this file. \\quit
SET LOCAL search_path = pg_catalog, pg_temp;
SELECT rag_internal.require_library();
END
}

install_tool() { # crate, version, options: compiles a program into build/tools if it is not there
    grep -qs "\"$1 $2 " "$build/tools/.crates2.json" && return
    say "cargo install $1 --version $2 (some minutes)"
    # shellcheck disable=SC2086 # a list of words
    cargo install --quiet "$1" --version "$2" --locked --root "$build/tools" ${3:-} ||
        fail "could not install $1 (see above)"
}

# Sets pg_major and the folders of the PostgreSQL that PG_CONFIG belongs to.
read_pg_config() {
    have "$PG_CONFIG" ||
        fail "$PG_CONFIG is missing: run 'make deps', or set PG_CONFIG to PostgreSQL's pg_config"
    PG_CONFIG=$(command -v "$PG_CONFIG")
    pg_major=$("$PG_CONFIG" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
    pg_bindir=$("$PG_CONFIG" --bindir)
    pg_libdir=$("$PG_CONFIG" --pkglibdir)
    pg_sharedir=$("$PG_CONFIG" --sharedir)
    # pgrx's build script reads this variable, or the list that `cargo pgrx init` wrote. It stays
    # unset if the list has this PostgreSQL: a plain `cargo build` and these scripts would otherwise
    # rebuild everything in turns.
    if ! grep -qsx "pg$pg_major = \"$PG_CONFIG\"" "${PGRX_HOME:-$HOME/.pgrx}/config.toml"; then
        export PGRX_PG_CONFIG_PATH="$PG_CONFIG"
    fi
}

pg_has_headers() { [ -f "$("$PG_CONFIG" --includedir-server)/postgres.h" ]; }
