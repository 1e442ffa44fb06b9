"""Compares rag_bm25 with other keyword search, over text of Debian's documentation packages."""
