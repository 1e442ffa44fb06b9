#!/usr/bin/env python3
"""Finds statements that look a document up by its id without its collection.

Ids of documents are predictable, and applications choose them. The same id in two collections is two
documents, of two owners: the key of rag.documents and rag_internal.document_digest is (collection,
document_id). A statement that compares the id, or resolves a conflict by it, must name the
collection as well.
"""

import pathlib
import re
import sys

TABLE = re.compile(r"\brag\.(documents|document_digests)\b")
BY_ID = re.compile(r"\bdocument_id\s*(=|IN\b|<>)|\((document_id)\)|USING\s*\(document_id")
# {rows} is the condition of the rows of a collection, as partitions.rs makes it
BY_COLLECTION = re.compile(r"\bcollection\s*(=|IN\b)|\(collection, document_id|WHERE \{rows\} AND")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


def statements(path):
    """Yields the line and the text of each statement of a file."""
    text = path.read_text()
    if path.suffix == ".rs":
        for string in STRING.finditer(re.sub(r"^[ \t]*//.*$", "", text, flags=re.MULTILINE)):
            yield text.count("\n", 0, string.start()) + 1, string.group(1)
        return
    text = re.sub(r"--[^\n]*", "", text)
    start = 0
    for statement in text.split(";"):
        yield text.count("\n", 0, start) + 1, statement
        start += len(statement) + 1


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    files = [*root.glob("src/**/*.rs"), *root.glob("sql/*.sql")]
    found = 0
    for path in sorted(files):
        for line, statement in statements(path):
            if TABLE.search(statement) and BY_ID.search(statement):
                if not BY_COLLECTION.search(statement):
                    print(f"{path.relative_to(root)}:{line}: by document_id without collection")
                    found += 1
    return found > 0


sys.exit(main())
