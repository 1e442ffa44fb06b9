"""The planner's choices for both indexes: sizes, filters with and without an index, and limits,
each against the best of the plans that it could have chosen.

Times are those of the server process on a processor, so that other programs do not count. No plan
is parallel.

BENCH_PLANNER_ROWS sets the sizes (default 1000,20000,200000), BENCH_SEED the seed of the data."""

import os
import pathlib

from support.database import fresh_database
from support.results import note, row

SIZES = [int(n) for n in os.environ.get("BENCH_PLANNER_ROWS", "1000,20000,200000").split(",")]
SEED = float(os.environ.get("BENCH_SEED", ".5"))
LIMITS = [1, 10, 100, 1000]
RUNS = 3
# A cell may take this factor of the best alternative, and a millisecond.
USUAL, WORST = 1.5, 3

DATA = """
SELECT setseed({seed});
CREATE TABLE centres AS SELECT c, ARRAY(SELECT random() * 2 - 1 FROM generate_series(1, 48)
    WHERE c >= 0) v FROM generate_series(0, 99) c;
CREATE TABLE items AS
    SELECT id, c AS cluster, (random() * 1000)::int AS bucket, body, v,
        body ~ '\\mw20\\M' AS has_word
    FROM (SELECT i AS id, i % 100 AS c,
            (SELECT string_agg('w' || floor(exp(random() * ln(30000)))::int, ' ')
             FROM generate_series(1, 30 + i % 61)) AS body,
            (SELECT ('[' || string_agg((x + random() * .6 - .3)::real::text, ',') || ']')
             FROM unnest(centres.v) x WHERE i > 0)::rag_types.vector AS v
          FROM generate_series(1, {rows}) i JOIN centres ON centres.c = i % 100) x;
ALTER TABLE items ADD PRIMARY KEY (id);
CREATE INDEX items_body ON items USING rag_bm25 (body) WITH (text_config = 'simple');
CREATE INDEX items_v ON items USING rag_hnsw (v vector_l2_ops);
"""
BTREES = """
CREATE INDEX items_bucket ON items (bucket);
CREATE INDEX items_cluster ON items (cluster);
CREATE INDEX items_word ON items (has_word);
"""
FILTERS = {
    "none": "true",
    "50 %": "bucket < 500",
    "10 %": "bucket < 100",
    "1 %": "bucket < 10",
    ".1 %": "bucket < 1",
}
KEYWORDS = {
    "common": ("body <@> 'w20'", {"the word itself": "has_word", "no such word": "NOT has_word"}),
    "rare": ("body <@> 'w3000'", {}),
    "four words": ("body <@> 'w20 w300 w3000 w9000'", {}),
}
VECTORS = {
    "vector": ("v <-> (SELECT v FROM items WHERE id = 7)",
        {"own cluster": "cluster = 7", "far cluster": "cluster = 57"}),
}
# What makes the planner choose other plans. Each is tried alone.
ALTERNATIVES = ["enable_sort", "enable_indexscan", "enable_bitmapscan", "enable_seqscan",
    "rag.enable_filtered_scan"]


def processor_time(connection):
    """The milliseconds that the server process has run."""
    statistics = pathlib.Path(f"/proc/{connection.info.backend_pid}/schedstat").read_text()
    return int(statistics.split()[0]) / 1e6


def milliseconds(connection, statement):
    times = []
    for _ in range(RUNS):
        started = processor_time(connection)
        rows = connection.execute(statement).fetchall()
        times.append(processor_time(connection) - started)
        if times[0] > 2000:
            break  # slow enough to be known
    return min(times), len(rows)


def cell(connection, order, condition, limit):
    """The time of the plan that is chosen, and of the best one, and the number of rows."""
    statement = f"SELECT id FROM items WHERE {condition} ORDER BY {order} LIMIT {limit}"
    chosen, found = milliseconds(connection, statement)
    best = chosen
    for setting in ALTERNATIVES:
        connection.execute(f"SET {setting} = off")
        best = min(best, milliseconds(connection, statement)[0])
        connection.execute(f"RESET {setting}")
    return chosen, best, found


def matching(connection, order, condition, limit):
    """The number of rows that a search must return."""
    matches = "v IS NOT NULL" if order.startswith("v ") else order.replace("<@>", "@@@")
    connection.execute("SET enable_indexscan = off; SET enable_bitmapscan = off")
    count = connection.execute(f"SELECT count(*) FROM (SELECT FROM items WHERE {condition}"
        f" AND {matches} LIMIT {limit}) x").fetchone()[0]
    connection.execute("RESET enable_indexscan; RESET enable_bitmapscan")
    return count


def measure(connection, kind, searches, size, indexed):
    cells, slow, worst, wrong = 0, 0, (0, ""), 0
    for name, (order, own) in searches.items():
        for filter_name, condition in {**FILTERS, **own}.items():
            expected = matching(connection, order, condition, max(LIMITS))
            for limit in LIMITS:
                chosen, best, found = cell(connection, order, condition, limit)
                cells += 1
                wrong += found != min(limit, expected)
                factor = max(chosen - 1, 0) / best
                worst = max(worst, (factor, f"{name}, {filter_name}, LIMIT {limit}:"
                    f" {chosen:.1f} ms, best {best:.1f}"))
                slow += factor > USUAL
    label = f"{kind}, {size:,} rows{', btree' if indexed else ''}"
    note(f"{label}: worst {worst[0]:.2f}: {worst[1]}; {wrong} cells with other rows")
    return cells, slow, worst[0], wrong


def main():
    total = {"keyword": [0, 0, 0, 0], "vector": [0, 0, 0, 0]}
    for size in SIZES:
        connection = fresh_database("bench")
        connection.execute("SET max_parallel_workers_per_gather = 0")
        connection.execute(DATA.format(seed=SEED, rows=size))
        for indexed in (False, True):
            if indexed:
                connection.execute(BTREES)
            connection.execute("VACUUM ANALYZE items")
            for kind, searches in (("keyword", KEYWORDS), ("vector", VECTORS)):
                cells, slow, worst, wrong = measure(connection, kind, searches, size, indexed)
                so_far = total[kind]
                total[kind] = [so_far[0] + cells, so_far[1] + slow, max(so_far[2], worst),
                    so_far[3] + wrong]
        connection.close()
    for kind, (cells, slow, worst, wrong) in total.items():
        good = 1 - slow / cells
        row(f"{kind}: cells within {USUAL} times the best plan + 1 ms", f"{good:.1%} of {cells}",
            target=">= 98 %", met=good >= .98)
        row(f"{kind}: worst cell", f"{worst:.2f}", target=f"<= {WORST}", met=worst <= WORST)
        row(f"{kind}: cells with other rows than match", str(wrong), target="0", met=wrong == 0)


main()
