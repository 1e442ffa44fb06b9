#!/bin/sh
# Runs when the image creates its cluster: creates the extension, and lets the gateway log in.
set -eu
: "${RAG_GATEWAY_PASSWORD:?is not set: choose the password of the role rag_gateway}"
psql --no-psqlrc --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname="$POSTGRES_DB" \
    --set=password="$RAG_GATEWAY_PASSWORD" <<'EOF'
CREATE EXTENSION rag;
ALTER ROLE rag_gateway PASSWORD :'password';
EOF
