#!/bin/sh
# Writes the generated tables of the documentation, and the output of its examples, as the installed
# extension gives them: read the difference before you commit it. Arguments name single pages:
# docs.sh docs/reference/runs.md
set -eu
. "$(dirname "$0")/common.sh"

RAG_DOCS="$*"
export RAG_DOCS
exec scripts/test.sh --accept tests/t/098_docs.pl
