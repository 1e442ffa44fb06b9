"""The differences between the two sides of a comparison: names and settings."""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Side:
    name: str
    type: str
    operator: str
    method: str
    # of CREATE INDEX
    options: str
    ef_setting: str
    default_ef: int
    # how a filtered search is set up: name -> settings
    filtered: dict

    @property
    def table(self):
        return f"{self.name}_items"

    @property
    def index(self):
        return f"{self.table}_embedding"

    def query(self, table=None, where="", literal=""):
        """Returns the query for the ten nearest of a parameter, or of a vector given as text."""
        vector = f"'{literal}'" if literal else "$1"
        where = where and f"WHERE {where} "
        return (
            f"SELECT id FROM {table or self.table} {where}"
            f"ORDER BY embedding {self.operator} {vector}::{self.type} LIMIT 10"
        )


RAG = Side(
    name="rag",
    type="rag_types.vector",
    operator="OPERATOR(public.<=>)",
    method="rag_hnsw",
    options=os.environ.get("BENCH_HNSW_OPTIONS", "m = 16, ef_construction = 100"),
    ef_setting="rag.ef_search",
    default_ef=80,
    filtered={"": {}},
)

# Its iterative scan is off as installed: strict_order is what gives rows in order. A scan of 20,000
# tuples is too short for recall .95 where one row in a hundred matches or fewer, so that it runs
# with a higher limit, too.
PGVECTOR = Side(
    name="pgvector",
    type="pgvector.vector",
    operator="OPERATOR(pgvector.<=>)",
    method="hnsw",
    options="m = 16, ef_construction = 64",
    ef_setting="hnsw.ef_search",
    default_ef=40,
    filtered={
        " strict_order": {"hnsw.iterative_scan": "strict_order"},
        " strict_order, raised limits": {
            "hnsw.iterative_scan": "strict_order",
            "hnsw.max_scan_tuples": "1000000",
            "hnsw.scan_mem_multiplier": "64",
        },
    },
)


def chosen(default):
    """Returns the sides to measure. BENCH_HNSW_SIDES names fewer."""
    names = os.environ.get("BENCH_HNSW_SIDES", default).split()
    return [side for side in [RAG, PGVECTOR] if side.name in names]


def turns(sides, number):
    """Returns the sides, the other one first every other time."""
    return sides[:: -1 if number % 2 else 1]
