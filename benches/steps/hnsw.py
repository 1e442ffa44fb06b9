"""rag_hnsw against pgvector's hnsw: the parts are in ann/. BENCH_HNSW_PARTS names fewer of them."""

import os

from ann import bench, build, churn, curve, filters, insert, vacuum, wide
from support.results import note

PARTS = {
    "build": build,
    "curve": curve,
    "filter": filters,
    "insert": insert,
    "churn": churn,
    "vacuum": vacuum,
    "wide": wide,
}


def main():
    names = os.environ.get("BENCH_HNSW_PARTS", "").split() or list(PARTS)
    opened = bench.open_bench()
    for name in names:
        note(f"-- {name}")
        PARTS[name].run(opened)
    opened.connection.close()


# the processes of its clients import it
if __name__ == "__main__":
    main()
