"""Client of `rag`, the PostgreSQL extension for retrieval-augmented generation.

from rag_postgresql import connect

rag = connect("postgresql://localhost/app")
rag.add("Keys are rotated every 90 days.", uri="note:keys")
rag.search("how often are keys replaced?")
"""

from .async_client import AsyncRag, connect_async
from .client import Rag, connect
from .errors import (
    ExtensionMissing,
    ModelMissing,
    NoConnection,
    NotAllowed,
    RagError,
    ServerTooOld,
)
from .records import Added, Answer, AsyncStream, Chunk, Hit, Hits, Progress, Run, Stream

__version__ = "0.2.0"

__all__ = [
    "Added",
    "Answer",
    "AsyncRag",
    "AsyncStream",
    "Chunk",
    "ExtensionMissing",
    "Hit",
    "Hits",
    "ModelMissing",
    "NoConnection",
    "NotAllowed",
    "Progress",
    "Rag",
    "RagError",
    "Run",
    "ServerTooOld",
    "Stream",
    "connect",
    "connect_async",
]
