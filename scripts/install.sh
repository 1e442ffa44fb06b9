#!/bin/sh
# Installs what build.sh built into the folders of the PostgreSQL that PG_CONFIG belongs to, below
# DESTDIR. --remove uninstalls it. --released only adds the install scripts of released versions,
# with which tests begin an upgrade. Servers for users do not get them: old functions may have bugs.
#
#   $(pg_config --pkglibdir)            rag.so
#   $(pg_config --pkglibdir)/rag        rag-engine, libonnxruntime.so, libpdfium.so
#   $(pg_config --pkglibdir)/rag        rag-gateway, which needs no preload and may run elsewhere
#   $(pg_config --pkglibdir)/rag/openvino   OpenVINO's libraries, if WITH_OPENVINO is 1
#   $(pg_config --sharedir)/extension   rag.control, rag--*.sql
#   $(pg_config --sharedir)/rag/models  a folder with the embedding model
#
# Each file is replaced by a rename: a running server keeps the file that it has open.
set -eu
. "$(dirname "$0")/common.sh"

read_pg_config
libdir=${DESTDIR:-}$pg_libdir
sharedir=${DESTDIR:-}$pg_sharedir
extensiondir=$sharedir/extension
modeldir=$sharedir/rag/models/$MODEL

nearest_folder() { # prints the folder, or its nearest parent that exists
    folder=$1
    while [ ! -d "$folder" ]; do folder=$(dirname "$folder"); done
    echo "$folder"
}

as=
for folder in "$libdir" "$extensiondir" "$libdir/rag" "$modeldir"; do
    [ -w "$(nearest_folder "$folder")" ] && continue
    if have sudo && sudo -n true 2>/dev/null; then
        as="sudo -n"
    else
        fail "permission denied for $folder: run 'sudo make install', or set DESTDIR or PG_CONFIG"
    fi
done

put() { # mode, file, destination
    if [ -f "$3" ] && cmp -s "$2" "$3"; then return; fi
    folder=$(dirname "$3")
    [ -d "$folder" ] || (umask 022 && $as mkdir -p "$folder")
    $as install -m "$1" "$2" "$3.new"
    $as mv -f "$3.new" "$3"
    installed=$((installed + 1))
}

install_all() {
    installed=0
    package=$build/package
    [ -f "$package$pg_libdir/rag.so" ] && [ -x "$target/release/rag-engine" ] &&
        [ -x "$target/release/rag-gateway" ] ||
        fail "nothing is built for $PG_CONFIG: run 'make build'"
    put 755 "$target/release/rag-engine" "$libdir/rag/rag-engine"
    put 755 "$target/release/rag-gateway" "$libdir/rag/rag-gateway"
    put 755 "$(echo "$build"/model/libonnxruntime.so.*)" "$libdir/rag/libonnxruntime.so"
    put 755 "$(echo "$build"/model/libpdfium.so.*)" "$libdir/rag/libpdfium.so"
    if [ "${WITH_OPENVINO:-}" = 1 ]; then
        for file in "$build"/model/openvino/*; do
            put 755 "$file" "$libdir/rag/openvino/$(basename "$file")"
        done
    fi
    for file in $MODEL_FILES; do
        put 644 "$build/model/$MODEL/$file" "$modeldir/$file"
    done
    control=$package$pg_sharedir/extension/rag.control
    for file in "$extensiondir"/rag--*.sql; do
        # an upgrade script stays: other versions may have been installed from packages
        case $(basename "$file") in
            rag--*--*.sql) ;;
            *) [ -f "$package$pg_sharedir/extension/$(basename "$file")" ] || $as rm -f "$file" ;;
        esac
    done
    for file in "$package$pg_sharedir/extension"/rag--*.sql sql/upgrade/rag--*.sql "$control"; do
        [ -f "$file" ] || continue
        put 644 "$file" "$extensiondir/$(basename "$file")"
    done
    put 755 "$package$pg_libdir/rag.so" "$libdir/rag.so"
    say "installed into $libdir and $sharedir ($installed files changed)"
}

install_released() {
    installed=0
    plain=$(mktemp)
    for file in sql/releases/rag--*.sql.gz; do
        gzip --decompress --stdout "$file" >"$plain"
        put 644 "$plain" "$extensiondir/$(basename "$file" .gz)"
    done
    for file in sql/upgrade/rag--*.sql; do
        [ -f "$file" ] || continue
        put 644 "$file" "$extensiondir/$(basename "$file")"
    done
    rm -f "$plain"
    say "installed released versions into $extensiondir ($installed files changed)"
}

remove_all() {
    $as rm -f "$libdir"/rag/openvino/lib*
    $as rm -f "$libdir/rag.so" "$libdir/rag/rag-engine" "$libdir/rag/rag-gateway" \
        "$libdir/rag/libonnxruntime.so" "$libdir/rag/libpdfium.so" "$extensiondir/rag.control" \
        "$extensiondir"/rag--*.sql
    for file in $MODEL_FILES; do $as rm -f "$modeldir/$file"; done
    # A folder that holds other files stays.
    for folder in "$libdir/rag/openvino" "$libdir/rag" "$modeldir/1_Pooling" "$modeldir" \
        "$sharedir/rag/models" "$sharedir/rag"; do
        [ ! -d "$folder" ] || $as rmdir --ignore-fail-on-non-empty "$folder"
    done
    say "removed from $libdir and $sharedir"
}

case "${1:-}" in
    '') install_all ;;
    --released) install_released ;;
    --remove) remove_all ;;
    *) fail "unknown option $1" ;;
esac
