#!/usr/bin/env python3
"""Checks that docs/reference/errors.md has a section for each SQLSTATE that the code raises.

Conditions are named in src/ and crates/ (ERRCODE_...) and in sql/ (ERRCODE = '...').
PostgreSQL's errcodes.txt, the argument, gives their codes. A section whose code nothing raises
fails, too, unless PostgreSQL raises it on behalf of the extension.
"""

import re
import sys
from pathlib import Path

# No errors.
SUCCESS = {"successful_completion", "warning"}
# Caught, and told from other errors, but not raised.
CAUGHT = {"invalid_catalog_name", "invalid_schema_name", "undefined_function"}
# Raised by PostgreSQL, itself or by functions that the extension calls.
OF_POSTGRES = {"25006", "2D000", "57P02"}


def codes(path):
    """The SQLSTATE of each condition, by both of its names."""
    found = {}
    for line in path.read_text().splitlines():
        if fields := re.match(r"([0-9A-Z]{5})\s+[EWS]\s+ERRCODE_(\S+)(?:\s+(\S+))?", line):
            code, macro, name = fields.groups()
            found.setdefault(macro.lower(), code)
            if name:
                found.setdefault(name, code)
    return found


def main():
    root = Path(__file__).resolve().parent.parent
    code_of = codes(Path(sys.argv[1]))
    raised = {}
    patterns = ["src/**/*.rs", "crates/*/src/**/*.rs", "sql/**/*.sql"]
    for path in [path for pattern in patterns for path in root.glob(pattern)]:
        text = path.read_text()
        names = re.findall(r"\bERRCODE_([A-Z][A-Z_]+)\b", text)
        names += re.findall(r"ERRCODE\s*=\s*'(\w+)'", text)
        for name in map(str.lower, names):
            if name in SUCCESS | CAUGHT:
                continue
            if name not in code_of:
                sys.exit(f"sqlstates.py: {path.relative_to(root)}: no condition is named {name}")
            raised.setdefault(code_of[name], path.relative_to(root))
    page = (root / "docs/reference/errors.md").read_text()
    sections = set(re.findall(r"^## ([0-9A-Z]{5})$", page, re.MULTILINE))
    missing = [f"{code} ({raised[code]})" for code in sorted(set(raised) - sections)]
    unused = sorted(sections - set(raised) - OF_POSTGRES)
    if missing:
        print(f"docs/reference/errors.md has no section for {', '.join(missing)}")
    if unused:
        print(f"docs/reference/errors.md has sections for what nothing raises: {', '.join(unused)}")
    if missing or unused:
        sys.exit(1)


if __name__ == "__main__":
    main()
