#!/bin/sh
# Writes to build/licences/, for each of rag, rag-engine and rag-gateway:
#
#   NAME.txt         the licences of all crates that are linked into it (cargo-about)
#   NAME.cdx.json    a list of its parts in CycloneDX (cargo-cyclonedx); that of rag-engine also has
#                    ONNX Runtime, PDFium and the model
#
# Fails if a crate has another licence than packaging/about.toml accepts, or a list is not valid
# CycloneDX. Needs what build.sh has fetched. Does nothing if no dependency has changed: reading all
# files of all crates takes minutes. deb.sh, rag.spec and lint.sh call it.
set -eu
. "$(dirname "$0")/common.sh"

ABOUT_VERSION=0.9.3
CYCLONEDX_VERSION=0.5.9
CYCLONEDX_LIB_VERSION=11.12.0

out=$build/licences
last=$out/rag-gateway.cdx.json
if [ -f "$last" ]; then
    # shellcheck disable=SC2046 # a list of words
    newer=$(find Cargo.lock packaging/about.* scripts/licences.sh scripts/sbom.py \
        "$build"/model/lib* $(git ls-files '*Cargo.toml') -newer "$last")
    [ -n "$newer" ] || exit 0
fi
say "the licences of all crates (some minutes)"
install_tool cargo-about $ABOUT_VERSION "--features cli"
install_tool cargo-cyclonedx $CYCLONEDX_VERSION
python=$build/cyclonedx/bin/python
if ! [ -x "$python" ]; then
    python3 -m venv "$build/cyclonedx"
    "$build/cyclonedx/bin/pip" install --quiet \
        "cyclonedx-python-lib[json-validation]==$CYCLONEDX_LIB_VERSION"
fi

rm -rf "$out"
mkdir -p "$out/tree"
# cargo-cyclonedx writes beside each Cargo.toml.
git ls-files -z '*Cargo.toml' Cargo.lock 'src/*.rs' '*/src/*.rs' '*/build.rs' |
    tar -c --null -T - | tar -x -C "$out/tree"
cargo cyclonedx --quiet --manifest-path "$out/tree/Cargo.toml" --format json --spec-version 1.5 \
    --no-build-deps
for name in rag rag-engine rag-gateway; do
    folder=$out/tree/crates/${name#rag-}
    [ "$name" != rag ] || folder=$out/tree
    cargo about generate --manifest-path "$folder/Cargo.toml" --config packaging/about.toml \
        --fail --frozen --output-file "$out/$name.txt" packaging/about.hbs ||
        fail "a crate of $name has no licence that packaging/about.toml accepts"
    "$python" scripts/sbom.py $name "$out/tree" "$folder/$name.cdx.json" "$out/$name.cdx.json" ||
        fail "the list of the parts of $name is wrong"
done
rm -rf "$out/tree"
