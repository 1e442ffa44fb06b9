#!/usr/bin/env python3
"""Prints lines of tracked files that are longer than 100 columns, as file:line: columns.

Exits with 1 if there are any. A tab advances to the next multiple of 4. It skips

* expected output and data of tests, upgrade scripts, and the bundle of the console,
* tables and fenced code, in Markdown and in comments of Rust,
* lines that consist of one link,
* psql's backslash commands, which cannot be continued,
* code of Rust's tests, whose long lines are test data that rustfmt leaves alone, and lines of
  Python with a string literal of 60 characters or more.
"""

import re
import subprocess
import sys
import unicodedata

LIMIT = 100
SUFFIXES = (".rs", ".sql", ".sh", ".pl", ".pm", ".py", ".md", ".js", ".jsx", ".css")
SKIPPED = ("tests/expected/", "tests/data/", "sql/upgrade/rag--", "crates/gateway/console/dist/")
COMMENT = re.compile(r"^\s*//[/!]? ?(.*)$")
LITERAL = re.compile(r"""(["'])(?:(?!\1).){60,}\1|^\s*(?:[A-Z(]|"\"\")""")
LINK = re.compile(r"^[\s>*#/!-]*(\[[^\]]*\]:\s*|\[[^\]]*\]\(|<)?https?://\S+$")


def columns(line):
    """Columns that a line takes in a terminal."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in line.expandtabs(4)
    )


def too_long(path, text):
    """Numbers and widths of the lines of a file that are too long."""
    in_fence, in_tests = False, "/tests/" in path or path.startswith("fuzz/")
    for number, line in enumerate(text.split("\n"), 1):
        shown = line
        if path.endswith(".rs"):
            in_tests = in_tests or line.startswith("#[cfg(test)]")
            comment = COMMENT.match(line)
            if comment is None:
                in_fence = False
                if in_tests:
                    continue
            else:
                shown = comment.group(1)
        if path.endswith(".md") or shown is not line:
            if shown.lstrip().startswith(("```", "~~~")):
                in_fence = not in_fence
                continue
            if in_fence or shown.lstrip().startswith("|"):
                continue
        if path.endswith(".sql") and line.startswith("\\"):
            continue
        if path.endswith(".py") and LITERAL.search(line):
            continue
        if len(line) > LIMIT // 2 and columns(line) > LIMIT and not LINK.match(line):
            yield number, columns(line)


def main():
    paths = sys.argv[1:] or subprocess.check_output(["git", "ls-files"], text=True).splitlines()
    found = 0
    for path in paths:
        if not path.endswith(SUFFIXES) or path.startswith(SKIPPED):
            continue
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, width in too_long(path, file.read()):
                print(f"{path}:{number}: {width} columns")
                found += 1
    return found > 0


sys.exit(main())
