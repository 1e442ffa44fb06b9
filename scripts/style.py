#!/usr/bin/env python3
"""Checks rules of CONTRIBUTING.md that no other tool knows, and prints what breaks them.

* A file of code has at most 500 lines. Expected output and data of tests, and upgrade scripts, have
  no limit.
* A paragraph of a doc comment says "Returns true if" or "True if" instead of "whether". It names
  what happens, and not who is made to do it ("Has ... done"). It is no fragment that needs the item
  above it ("Does the same").
* The files in tests/ of a crate are modules of its one program, or programs that Cargo.toml names.
  The tests that tests/t/schedule names exist.
"""

import re
import subprocess
import sys
from pathlib import Path

MOST_LINES = 500
SUFFIXES = (".rs", ".sql", ".sh", ".pl", ".pm", ".py", ".js", ".jsx", ".css")
WITHOUT_LIMIT = ("tests/expected/", "tests/data/", "sql/upgrade/rag--", "crates/gateway/console/dist/")
DOC = re.compile(r"^\s*//[/!] ?(.*)$")
RULES = [
    (re.compile(r"(Returns w|W)hether\b"), 'write "Returns true if" or "True if"'),
    (re.compile(r"(Has|Have) (?!no\b|nothing\b|one\b)"), "say what happens"),
    (re.compile(r"(Does|Is|Are) the same\b|The same (for|as|with|of|in|without)\b"), "say what it is"),
    (re.compile(r"(As|Like) \[?`"), "say what it is"),
]


def paragraphs(lines):
    """Yields the number and the text of the first line of each paragraph of doc comments."""
    begins = True
    for number, line in enumerate(lines, 1):
        comment = DOC.match(line)
        text = comment.group(1).strip() if comment else ""
        if begins and text and not text.startswith("#"):
            yield number, text
        begins = not text or text.startswith("#")


def problems(path):
    lines = path.read_text(errors="replace").split("\n")
    if len(lines) - 1 > MOST_LINES and not str(path).startswith(WITHOUT_LIMIT):
        yield f"{path}: {len(lines) - 1} lines"
    if path.suffix == ".rs":
        for number, text in paragraphs(lines):
            for rule, remedy in RULES:
                if rule.match(text):
                    yield f"{path}:{number}: {remedy}: {text}"


def lost_tests(listed):
    """Yields the tests that nothing compiles, and lines of the schedule without a test."""
    for path in (Path(name) for name in listed):
        folder = path.parent
        main = folder / "main.rs"
        if folder.name == "tests" and path.suffix == ".rs" and path != main and main.exists():
            named = main.read_text() + (folder.parent / "Cargo.toml").read_text()
            if not re.search(rf'mod {path.stem};|name = "{path.stem}"', named):
                yield f"{path}: {main} lacks its name"
    for line in Path("tests/t/schedule").read_text().splitlines():
        name = line.partition(" ")[2]
        if not line.startswith("#") and f"tests/t/{name}.pl" not in listed:
            yield f"tests/t/schedule: there is no test {name}"


def main():
    listed = subprocess.check_output(["git", "ls-files"], text=True).splitlines()
    found = [p for name in listed if name.endswith(SUFFIXES) for p in problems(Path(name))]
    found += lost_tests(listed)
    print("\n".join(found), end="\n" if found else "")
    return len(found) > 0


if __name__ == "__main__":
    sys.exit(main())
