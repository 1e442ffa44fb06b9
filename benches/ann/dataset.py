"""The vectors, their true neighbours, and filling a table with them."""

import json
import os
from dataclasses import dataclass

import numpy

FOLDER = os.path.join(os.environ["BENCH_DATA"], "ann")
SEED = 20261122
BLOCK = 100_000
# Buckets are drawn evenly from 0..999, so that `bucket < n` selects n in a thousand rows at random.
BUCKETS = 1000


def read():
    """Reads base vectors, queries, and the rows of each query's 100 nearest vectors by cosine."""
    with open(os.path.join(FOLDER, "minilm-100k.json")) as file:
        about = json.load(file)
    load = lambda name, dtype, width: numpy.fromfile(
        os.path.join(FOLDER, about[name]), dtype
    ).reshape(-1, width)
    return (
        load("base", "<f2", about["dim"]).astype(numpy.float32),
        load("query", "<f2", about["dim"]).astype(numpy.float32),
        load("ground_truth", "<i4", 100),
    )


@dataclass
class Dataset:
    base: numpy.ndarray
    queries: numpy.ndarray
    # the ten nearest of each query: an id is a row number
    truth: numpy.ndarray
    buckets: numpy.ndarray

    @property
    def ids(self):
        return numpy.arange(len(self.base))


def dataset(rows, queries):
    """Returns the first `rows` vectors and queries, with the file's own truth if that applies."""
    base, asked, truth = read()
    truth = truth[:queries, :10] if rows >= len(base) else nearest(base[:rows], asked[:queries])
    base = base[:rows]
    buckets = numpy.random.default_rng(SEED).integers(0, BUCKETS, len(base))
    return Dataset(base, asked[:queries], truth, buckets)


def perturbed(vectors, seed, norm=0.3):
    """Adds Gaussian noise of this expected norm, scaled to length 1: cosine about .96."""
    generator = numpy.random.default_rng([SEED, seed])
    noise = generator.standard_normal(vectors.shape, numpy.float32) * (
        norm / vectors.shape[1] ** 0.5
    )
    moved = vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True) + noise
    return moved / numpy.linalg.norm(moved, axis=1, keepdims=True)


class Nearest:
    """The exact k nearest by cosine of base vectors that arrive in parts, in single precision."""

    def __init__(self, queries, k=10):
        self.queries = queries / numpy.linalg.norm(queries, axis=1, keepdims=True)
        self.k = k
        self.similarity = numpy.empty((len(queries), 0), numpy.float32)
        self.ids = numpy.empty((len(queries), 0), numpy.int64)

    def add(self, ids, vectors):
        for start in range(0, len(vectors), BLOCK):
            block = vectors[start : start + BLOCK]
            similarity = self.queries @ (block / numpy.linalg.norm(block, axis=1, keepdims=True)).T
            block_ids = numpy.broadcast_to(ids[start : start + BLOCK], similarity.shape)
            self.similarity = numpy.hstack([self.similarity, similarity])
            self.ids = numpy.hstack([self.ids, block_ids])
            order = numpy.argsort(-self.similarity, axis=1, kind="stable")[:, : self.k]
            self.similarity = numpy.take_along_axis(self.similarity, order, 1)
            self.ids = numpy.take_along_axis(self.ids, order, 1)


def nearest(base, queries, ids=None):
    """Returns the ids of the ten nearest of each query: row numbers, or the given ids."""
    search = Nearest(queries)
    search.add(numpy.arange(len(base)) if ids is None else ids, base)
    return search.ids


def recall(found, truth):
    """Returns the share of the true neighbours that was found."""
    hits = sum(len(set(ours) & set(right)) for ours, right in zip(found, truth.tolist()))
    return hits / truth.size


def wire(vectors):
    """Returns vectors in the binary form of both types: dimensions, a zero, the elements."""
    rows = numpy.zeros(
        len(vectors), [("size", ">i2"), ("zero", ">i2"), ("elements", ">f4", vectors.shape[1])]
    )
    rows["size"] = vectors.shape[1]
    rows["elements"] = vectors
    return [row.tobytes() for row in rows]


def text(vector):
    return "[" + ",".join(map(str, vector.tolist())) + "]"


def create_table(connection, table, kind, columns, size, inline=True):
    """Creates a table of integer columns and an embedding.

    The embedding stays in the row, as in rag.chunks, unless it is to be stored as installed.
    """
    integers = ", ".join(f"{column} integer" for column in columns)
    connection.execute(f"CREATE TABLE {table} ({integers}, embedding {kind}({size}))")
    if inline:
        connection.execute(f"ALTER TABLE {table} ALTER COLUMN embedding SET STORAGE PLAIN")


def copy_rows(connection, table, columns, vectors):
    """Appends a row for each vector. `columns` is name -> integers."""
    size = vectors.shape[1]
    integers = [
        field for column in columns for field in [(f"{column} bytes", ">i4"), (column, ">i4")]
    ]
    vector = [("vector bytes", ">i4"), ("size", ">i2"), ("zero", ">i2"), ("elements", ">f4", size)]
    with connection.cursor().copy(
        f"COPY {table} ({', '.join(columns)}, embedding) FROM STDIN WITH (FORMAT binary)"
    ) as copy:
        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
        for start in range(0, len(vectors), 10_000):
            part = slice(start, start + 10_000)
            rows = numpy.zeros(len(vectors[part]), [("fields", ">i2"), *integers, *vector])
            rows["fields"] = len(columns) + 1
            for column, values in columns.items():
                rows[f"{column} bytes"] = 4
                rows[column] = values[part]
            rows["vector bytes"] = 4 + 4 * size
            rows["size"] = size
            rows["elements"] = vectors[part]
            copy.write(rows.tobytes())
        copy.write(b"\xff\xff")


def fill(connection, table, kind, columns, vectors):
    create_table(connection, table, kind, columns, vectors.shape[1])
    copy_rows(connection, table, columns, vectors)
    connection.execute(f"VACUUM ANALYZE {table}")
