"""rag_hnsw at ten times the rows: see ann/growth.py."""

from ann import growth

growth.run()
