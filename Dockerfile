# PostgreSQL with rag, and rag-gateway: see docs/guide/installation.md#docker.
#
#   docker build --target server .     the official image of PostgreSQL, with the extension
#   docker build --target gateway .    rag-gateway alone
#
# The packages are built in the first stage. Nothing of it is in the images.
ARG PG=17
ARG RUST=1.95

FROM rust:${RUST}-slim-bookworm AS rust

FROM postgres:${PG}-bookworm AS build
ARG PG
ENV DEBIAN_FRONTEND=noninteractive
# The newest of each, as Debian's updates are fixes. `make deb` installs the rest.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends \
    ca-certificates debhelper git help2man lintian make postgresql-server-dev-${PG} python3-venv
COPY --from=rust /usr/local/cargo /usr/local/cargo
COPY --from=rust /usr/local/rustup /usr/local/rustup
ENV CARGO_HOME=/usr/local/cargo RUSTUP_HOME=/usr/local/rustup \
    PATH=/usr/local/cargo/bin:/usr/lib/postgresql/${PG}/bin:${PATH}
COPY . /src
WORKDIR /src
RUN make deb

FROM postgres:${PG}-bookworm AS server
ARG PG
RUN --mount=type=bind,from=build,source=/src/build/deb,target=/packages \
    apt-get update && \
    apt-get install -y --no-install-recommends "/packages/postgresql-${PG}-rag_"*.deb \
        /packages/rag-engine_*.deb /packages/rag-model-minilm_*.deb && \
    rm -rf /var/lib/apt/lists/* && \
    echo "shared_preload_libraries = 'rag'" >>/usr/share/postgresql/postgresql.conf.sample
COPY packaging/docker/10-rag.sh /docker-entrypoint-initdb.d/

FROM debian:bookworm-slim AS gateway
# hadolint ignore=DL3008
RUN --mount=type=bind,from=build,source=/src/build/deb,target=/packages \
    apt-get update && \
    apt-get install -y --no-install-recommends ca-certificates /packages/rag-gateway_*.deb && \
    rm -rf /var/lib/apt/lists/*
USER 65534
EXPOSE 8088
ENTRYPOINT ["rag-gateway"]
CMD ["serve", "--listen", "0.0.0.0:8088"]
