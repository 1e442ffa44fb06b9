#!/usr/bin/env python3
"""Prints which room of src/ uses which, and fails on an arrow that points up.

A room is a folder or file directly in src/. It may use the rooms that stand below it in ROOMS.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

# From the top down. `lib` is the root, where everything is put together.
ROOMS = [
    "lib",
    "api",
    "workers",
    "bundle",
    "sync",
    "source",
    "run",
    "drift",
    "answers",
    "search",
    "storage",
    "models",
    "index",
    "secrets",
    "engine",
    "cluster",
    "catalog",
    "types",
    "settings",
    "pg",
    "error",
]
SRC = Path(__file__).parent.parent / "src"


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


def main():
    rooms = {module_of(path)[0] for path in SRC.rglob("*.rs")}
    unknown = rooms - set(ROOMS)
    if unknown:
        sys.exit(f"rooms.py: {', '.join(sorted(unknown))}: not in the list of rooms")
    found = arrows()
    for room in ROOMS:
        below = [to for to in ROOMS if (room, to) in found]
        print(f"{room:9} -> {', '.join(below)}")
    upward = {
        (a, b): files for (a, b), files in found.items() if ROOMS.index(a) > ROOMS.index(b)
    }
    for (a, b), files in sorted(upward.items()):
        print(f"points up: {a} -> {b}: {', '.join(sorted(files))}", file=sys.stderr)
    return 1 if upward else 0


if __name__ == "__main__":
    sys.exit(main())
