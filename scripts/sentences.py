#!/usr/bin/env python3
"""Counts the words of each sentence of the documentation: sentences.py [-v] [FILE ...].

Without files: README.md, CONTRIBUTING.md and docs/**/*.md. Code, tables, headings, comments and
the targets of links are left out; an item of a list is a paragraph of its own. Prints the number of
sentences, the median and the longest, and fails where a sentence has more than 40 words or the
median is above 14. -v lists the sentences of more than 30 words, too.
"""

import re
import statistics
import sys
from pathlib import Path

MOST_WORDS = 40
MOST_MEDIAN = 14
LONG = 30

# What ends in a full stop and ends no sentence.
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|No|approx)\.$")


def paragraphs(text):
    """Yields the line number and the text of each paragraph of prose."""
    start, lines = 0, []
    fence = None
    in_comment = False
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        opened = re.match(r"(```+|~~~+)", stripped)
        if fence:
            if stripped.startswith(fence) and not stripped.strip(fence[0]):
                fence = None
            continue
        if in_comment:
            in_comment = "-->" not in stripped
            continue
        skipped = (
            not stripped
            or opened
            or stripped.startswith(("|", "#", "<!--"))
            or line.startswith("    ")
            and not lines
        )
        item = re.match(r"([-*+]|\d+\.)\s+", stripped)
        if (skipped or item) and lines:
            yield start, " ".join(lines)
            lines = []
        if opened:
            fence = opened.group(1)
        elif stripped.startswith("<!--"):
            in_comment = "-->" not in stripped
        elif not skipped:
            if not lines:
                start = number
            lines.append(stripped[item.end() :] if item else stripped.lstrip("> "))
    if lines:
        yield start, " ".join(lines)


def sentences(paragraph):
    """Splits prose at full stops, question and exclamation marks."""
    text = re.sub(r"`+[^`]*`+", "code", paragraph)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"<https?://[^>]*>|https?://\S+", "link", text)
    text = re.sub(r"[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}", "", text)
    begin = 0
    for end in re.finditer(r"[.!?][)\"'”]?(?=\s+[^a-z]|\s+code\b|\s*$)|:\s*$", text):
        if ABBREVIATION.search(text[begin : end.end()]):
            continue
        yield text[begin : end.end()].strip()
        begin = end.end()
    if text[begin:].strip():
        yield text[begin:].strip()


def words(sentence):
    return [word for word in sentence.split() if re.search(r"\w", word)]


def main(arguments):
    verbose = "-v" in arguments
    root = Path(__file__).resolve().parent.parent
    files = [Path(name) for name in arguments if name != "-v"]
    if not files:
        files = [root / "README.md", root / "CONTRIBUTING.md", *sorted(root.glob("docs/**/*.md"))]
    found = []
    for path in files:
        if not path.exists():
            continue
        for line, paragraph in paragraphs(path.read_text(encoding="utf-8")):
            for sentence in sentences(paragraph):
                if count := len(words(sentence)):
                    found.append((count, path, line, sentence))
    if not found:
        sys.exit("sentences.py: there is no prose")
    median = statistics.median(count for count, *_ in found)
    longest = max(found, key=lambda entry: entry[0])
    too_long = 0
    for count, path, line, sentence in found:
        if count > (LONG if verbose else MOST_WORDS):
            print(f"{path}:{line}: {count} words: {sentence}")
        too_long += count > MOST_WORDS
    print(
        f"{len(found)} sentences, median {median:g} words,"
        f" longest {longest[0]} ({longest[1]}:{longest[2]})"
    )
    if too_long or median > MOST_MEDIAN:
        sys.exit(
            f"sentences.py: {too_long} sentences have more than {MOST_WORDS} words;"
            f" the median may be at most {MOST_MEDIAN}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
