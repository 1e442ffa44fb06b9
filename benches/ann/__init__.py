"""Measuring approximate nearest neighbours: rag_hnsw against pgvector's hnsw in one server, over the same rows."""
