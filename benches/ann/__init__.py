"""Compares rag_hnsw with pgvector's hnsw in one server, over the same rows."""
