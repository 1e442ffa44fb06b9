"""Haystack: a document store, and retrievers by a text and by an embedding."""

from ..errors import missing_package

try:
    import haystack as _haystack  # noqa: F401
except ImportError as e:
    raise missing_package("haystack-ai", "haystack") from e

from .retrievers import RagEmbeddingRetriever, RagRetriever
from .store import RagDocumentStore

__all__ = ["RagDocumentStore", "RagEmbeddingRetriever", "RagRetriever"]
