"""Chunks in a collection, 100,000 if not said otherwise: real embeddings of documentation, and texts
of sentences of SciFact."""

import json
import uuid

from ann.dataset import perturbed
from support import scifact
from support.chunks import as_text, texts, vectors

CHUNKS = 100_000
COLUMNS = """collection, uri, title, document_id, document_type, knowledge_id, chunk_id, chunk_index,
    start_index, content, metadata, embedding, embedding_key, fetched_at, indexed_at, start_line,
    end_line"""
NOW = "2026-01-01"
MODES = ["vector", "keyword", "hybrid"]


def embeddings(count):
    """Yields vectors. After the first 100,000 they are the same ones, moved by seeded noise."""
    base = vectors("base")
    for number in range(0, count, len(base)):
        moved = base if number == 0 else perturbed(base, number // len(base))
        yield from moved[:count - number]


def fill(connection, count=CHUNKS):
    """Writes the chunks past the model, and lets the extension create the indexes."""
    documents = scifact.documents()
    connection.execute("SELECT rag_create_collection('hybrid')")
    connection.execute("SELECT rag_add_document('first', 'first', collection => 'hybrid')")
    with connection.cursor().copy(
            f"COPY rag_internal.rag_kb_hybrid ({COLUMNS}) FROM STDIN") as copy:
        for n, (text, embedding) in enumerate(zip(texts(count), embeddings(count))):
            number = n // 5
            copy.write_row((
                "hybrid", f"doc/{number}", documents[number % len(documents)]["title"],
                str(uuid.UUID(int=number + 1)), "text", number % 100, str(uuid.UUID(int=n + 1)),
                n % 5, 0, text,
                json.dumps({"k": number % 1000, "team": f"t{number // 7 % 100}"}),
                as_text(embedding), str(uuid.UUID(int=n + 1)), NOW, NOW, 1, 9))
    connection.execute("SELECT rag_add_document('last', 'last', collection => 'hybrid')")
