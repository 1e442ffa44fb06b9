"""The examples of the pages."""

import re
from pathlib import Path

import pytest

from rag_postgresql import Rag

CLIENTS = Path(__file__).parents[2]
PAGES = [CLIENTS / "python/README.md", CLIENTS.parent / "docs/guide/frameworks.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples(page: Path, rag: Rag) -> None:
    names: dict[str, object] = {}
    examples = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)
    assert examples
    try:
        for example in examples:
            exec(compile(example, page.name, "exec"), names)
    finally:
        rag.delete(filter={"uri": "note:keys"})
        if rag.has_collection("notes"):
            rag.drop_collection("notes")
