#!/usr/bin/env python3
"""Prints which room of src/ uses which. Fails on an arrow that points up, on maps that are wrong,
and on statements in other rooms than these, or in another style.

A room is a folder or file directly in src/. It may use the rooms below it in the table of src/lib.rs.
The table in docs/architecture.md has the same rooms in the same order. A mod.rs with more than six
modules has a table that names them. Files that prose and comments name exist.

Statements are in the rooms of STATEMENTS. They read columns by name, and do not say `pg_catalog.`,
because the search_path is pinned while they run.
"""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
MOST_WITHOUT_TABLE = 6
# A file in prose: a path of a repository's folder, or a file of Rust.
NAMED_FILE = re.compile(r"(?<![\w/.~$<>:*{-])(?:\.\.?/)*([\w./-]+\.(?:rs|sql|md|sh|py|pl|pm))\b")
COMMENT = {".rs": "//", ".sql": "--", ".sh": "#", ".pl": "#", ".pm": "#", ".py": "#", ".md": ""}
# Files of examples: documents of a user, and what a recipe creates.
EXAMPLE = re.compile(
    r"docs/(keys|example|docker|\.notes|api/a|a/\.\./b)\.md|\bsftp\.|source-sftp|module\.rs|example\.com/|/x\.pl"
)

# The rooms that have statements, and why.
STATEMENTS = {
    "catalog": "a file per table",
    "pg": "what the server knows of databases, settings, locks and the extension",
    "source/table": "reads the relation of a source, whose columns its statements are made of",
    "sync/rebuild": "copies documents into a partition that is not attached",
    "search": "a request composes its statements",
    "index": "reads the table of an index, as that table's owner",
    "bundle/rows": "reads and writes rows as bundles have them",
    "storage/outbox": "queues what servers do not have yet",
    "storage/access_methods.rs": "asks which access methods and operator classes there are",
    "sync/given_chunks": "reads and writes documents that applications split",
    "collection/figures.rs": "counts and sizes of collections, one statement",
    "collection/partition.rs": "creates and drops partitions",
    "collection/index.rs": "creates and drops the indexes of a partition",
    "collection/keyword_index.rs": "creates the keyword index of a partition",
    "collection/corruption.rs": "rebuilds indexes",
    "types/vector/datum.rs": "reads many vectors without copies",
}
# What runs a statement, and what looks like one. A hint that names a call of rag_... is none.
RUN = re.compile(
    r"\.(?:execute(?:_returning|_prepared)?|query_prepared|prepare_query|for_each_row)\("
    r"|\b(?:owner|caller|reader|rights)\s*\.\s*query\(|\bCursor::open\(|\bSpi::"
)
STATEMENT = re.compile(r'(?<!c)"\s*(?:SELECT(?! rag_)|INSERT INTO|UPDATE|DELETE FROM|LOCK TABLE|WITH \w+) ')
BY_NUMBER = re.compile(r"\brow\s*\.(?:get|required|uuid)(?:::<[^(]*>)?\(\s*\d")
# Not the default of a function's argument, and no configuration of text search.
QUALIFIED = re.compile(r"pg_catalog\.(?!english|simple|\s)(?!now\(\)\"\))")


def tabled(text, cell):
    """Returns what the rows of a table in a comment or in Markdown name in their first cells."""
    rows = re.findall(r"^(?://! )?\| ([^|]*) \|", text, re.MULTILINE)
    return [name for row in rows for name in re.findall(cell, row)]


# From the top down. `lib` is the root, where everything is put together.
ROOMS = ["lib", *tabled((SRC / "lib.rs").read_text(), r"\[`(\w+)`\]")]


def split_tree(text):
    """Splits the inside of `{...}` at its outer commas."""
    parts, depth, current = [], 0, ""
    for c in text:
        depth += (c == "{") - (c == "}")
        if c == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += c
    return [part for part in [*parts, current] if part.strip()]


def leaves(tree):
    """Yields the paths that a `use` tree names, each a list of segments."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace < 0:
        yield [s for s in tree.split(" as ")[0].strip().split("::") if s]
        return
    prefix = [s for s in tree[:brace].split("::") if s.strip()]
    for part in split_tree(tree[brace + 1 : tree.rindex("}")]):
        for leaf in leaves(part):
            yield prefix + leaf


def module_of(path):
    parts = list(path.relative_to(SRC).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "mod" else parts


def room_of(segments, module):
    """Returns the room that a path names, or None where it names none."""
    segments = list(segments)
    if segments[0] == "crate":
        rest = segments[1:]
    elif segments[0] == "super":
        base = list(module)
        while segments and segments[0] == "super":
            base = base[:-1]
            segments = segments[1:]
        rest = base + segments
    else:
        return None
    return rest[0] if rest and rest[0] in ROOMS else None


def without_comments(text):
    return re.sub(r"//[^\n]*", "", text)


def arrows():
    """Returns {(from, to): files} over all of src/."""
    found = defaultdict(set)
    for path in sorted(SRC.rglob("*.rs")):
        module = module_of(path)
        text = without_comments(path.read_text())
        paths = []
        for use in re.finditer(r"\buse\s+((?:crate|super)\b[^;]*);", text):
            paths += leaves(re.sub(r"\s+", " ", use.group(1)))
        paths += [m.split("::") for m in re.findall(r"(?<![\w:])((?:crate|super)(?:::\w+)+)", text)]
        for segments in paths:
            # `super` inside a nested `mod` of the same file stays in the file
            room = room_of(segments, module if segments[0] == "crate" or len(module) > 1 else [""])
            here = module[0]
            if room and room != here:
                found[here, room].add(str(path.relative_to(SRC)))
    return found


def wrong_maps():
    """Yields what the tables of rooms and modules lack."""
    rooms = {module_of(path)[0] for path in SRC.rglob("*.rs")}
    for room in sorted(rooms ^ set(ROOMS)):
        yield f"src/lib.rs: its table and src/ differ in {room}"
    text = (ROOT / "docs/architecture.md").read_text()
    mapped = tabled(text, r"\(\.\./src/(\w+)(?:/mod)?\.rs\)")
    if list(dict.fromkeys(mapped)) != ROOMS[1:]:
        yield "docs/architecture.md: its rooms are not those of src/lib.rs, in their order"
    for path in sorted(SRC.rglob("mod.rs")):
        text = path.read_text()
        modules = re.findall(r"^(?:pub(?:\([^)]*\))? )?mod (\w+);", text, re.MULTILINE)
        missing = set(modules) - set(tabled(text, r"\[`(\w+)`\]"))
        if len(modules) > MOST_WITHOUT_TABLE and missing:
            yield f"{path.relative_to(ROOT)}: its table lacks {', '.join(sorted(missing))}"


def wrong_statements():
    """Yields statements in other rooms than those of STATEMENTS, or in another style."""
    for path in sorted(SRC.rglob("*.rs")):
        name = path.relative_to(SRC)
        text = without_comments(path.read_text())
        patterns = [(BY_NUMBER, "reads a column by number"), (QUALIFIED, "says pg_catalog.")]
        if not any(name.is_relative_to(room) for room in STATEMENTS):
            patterns += [(RUN, "runs a statement"), (STATEMENT, "has a statement")]
        for pattern, what in patterns:
            for found in pattern.finditer(text):
                yield f"src/{name}:{text.count(chr(10), 0, found.start()) + 1}: {what}"


def missing_files():
    """Yields the files that prose and comments name and that are not tracked."""
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).split("\n")
    ends = {"/".join(p.split("/")[i:]) for p in listed for i in range(p.count("/") + 1)}
    folders = {p.split("/")[0] for p in ends if "/" in p}
    for path in (Path(p) for p in listed if Path(p).suffix in COMMENT):
        for number, line in enumerate((ROOT / path).read_text().split("\n"), 1):
            mark = COMMENT[path.suffix]
            for name in NAMED_FILE.findall(line.partition(mark)[2] if mark else line):
                is_ours = name.split("/")[0] in folders or name.endswith(".rs")
                if is_ours and name not in ends and not EXAMPLE.search(name):
                    yield f"{path}:{number}: {name} does not exist"


def main():
    found = arrows()
    for room in ROOMS:
        below = [to for to in ROOMS if (room, to) in found]
        print(f"{room:9} -> {', '.join(below)}")
    problems = [
        f"points up: {a} -> {b}: {', '.join(sorted(files))}"
        for (a, b), files in sorted(found.items())
        if ROOMS.index(a) > ROOMS.index(b)
    ]
    problems += [*wrong_maps(), *wrong_statements(), *missing_files()]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
