"""rag_bm25 against its peers: the parts are in keywords/. BENCH_BM25_PARTS names fewer of them."""

import os

from keywords import bench, build, filters, insert, quality, search
from support.results import note

PARTS = {
    "build": build,
    "search": search,
    "filter": filters,
    "insert": insert,
    "quality": quality,
}


def main():
    names = os.environ.get("BENCH_BM25_PARTS", "").split() or list(PARTS)
    opened = bench.open_bench()
    for name in names:
        note(f"-- {name}")
        PARTS[name].run(opened)
    opened.close()


main()
