"""The sides of the comparison that are in PostgreSQL: their extensions, indexes and queries."""

from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class Side:
    name: str
    # what the table shows
    label: str
    extensions: tuple = ()
    # what makes the index: step -> statement
    build: dict = field(default_factory=dict)
    # of the index, and of what it needs in the table
    size: str = "pg_relation_size('{index}')"
    # ranking -> query for the best rows of the parameter $1, which is of type text
    rankings: dict = field(default_factory=dict)
    # the parameter is a tsquery, the terms of the query linked with OR, instead of its text
    takes_tsquery: bool = False
    # ranks by BM25 over the terms of the text search configuration
    is_bm25: bool = False
    # a query takes about a second, because all rows that match are ranked
    is_slow: bool = False

    @property
    def database(self):
        """Each side has its own, because two of them have an access method of the same name."""
        return f"bench_{self.name}"

    def statements(self, table, index):
        return {what: sql.format(table=table, index=index) for what, sql in self.build.items()}

    def query(self, ranking, table="chunks", where="", limit="LIMIT 10"):
        return self.rankings[ranking].format(
            table=table, index=f"{table}_body", where=where or "true", limit=limit
        )


PLAIN = Side("plain", "no index")

RAG = Side(
    "rag",
    "rag_bm25",
    extensions=("rag",),
    build={
        "index": "CREATE INDEX {index} ON {table} USING rag_bm25 (body) "
        "WITH (text_config = 'english')"
    },
    rankings={"": "SELECT id FROM {table} WHERE {where} ORDER BY body <@> $1::text {limit}"},
    is_bm25=True,
)

TEXTSEARCH = Side(
    "textsearch",
    "pg_textsearch",
    extensions=("pg_textsearch",),
    build={
        "index": "CREATE INDEX {index} ON {table} USING bm25 (body) WITH (text_config = 'english')"
    },
    rankings={
        "": "SELECT id FROM {table} WHERE {where} "
        "ORDER BY body <@> to_bm25query($1::text, '{index}') {limit}"
    },
    is_bm25=True,
)

# Its terms are of its own tokenizer, stemmer and stop words. So its ranking is not compared.
PARADEDB = Side(
    "paradedb",
    "pg_search",
    extensions=("pg_search",),
    build={
        "index": "CREATE INDEX {index} ON {table} USING bm25 (id, bucket, "
        "(body::pdb.simple('stemmer=english', 'stopwords_language=english'))) "
        "WITH (key_field = 'id')"
    },
    rankings={
        "": "SELECT id FROM {table} WHERE body ||| $1::text AND {where} "
        "ORDER BY pdb.score(id) DESC {limit}"
    },
)

# A parameter of type text would be converted for every row.
RANKED = (
    "WITH asked AS MATERIALIZED (SELECT $1::text::tsquery AS query) "
    "SELECT id FROM asked, {{table}} WHERE terms @@ query AND {{where}} "
    "ORDER BY {rank}(terms, query) DESC {{limit}}"
)

GIN = Side(
    "gin",
    "GIN",
    build={
        "tsvectors": "ALTER TABLE {table} ADD COLUMN terms tsvector "
        "GENERATED ALWAYS AS (to_tsvector('english', body)) STORED",
        "index": "CREATE INDEX {index} ON {table} USING gin (terms)",
    },
    size="pg_relation_size('{index}') + (SELECT sum(pg_column_size(terms)) FROM {table})",
    rankings={rank: RANKED.format(rank=rank) for rank in ["ts_rank_cd", "ts_rank"]},
    takes_tsquery=True,
    is_slow=True,
)

ALL = [RAG, TEXTSEARCH, PARADEDB, GIN]
TANTIVY = "tantivy"
