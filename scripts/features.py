#!/usr/bin/env python3
"""Fails if a dependency is compiled twice because calls of Cargo want other features of it.

Arguments: the feature of the extension, such as pg15. Prints what crates/features lacks. Reads
Cargo's graph of units, an unstable option that needs RUSTC_BOOTSTRAP.
"""

import json
import os
import subprocess
import sys
from collections import defaultdict

POSTGRESQL = sys.argv[1]
EXTENSION = ["build", "--lib", "-p", "rag", "--no-default-features", "--features", POSTGRESQL]
# The calls of scripts/build.sh, cargo-pgrx and scripts/test.sh.
CALLS = [
    ["build", "-p", "rag", "-p", "rag-engine", "-p", "rag-gateway", "-p", "rag-model"]
    + ["--no-default-features", "--features", f"rag/{POSTGRESQL}"],
    EXTENSION,
    ["test", "--workspace", "--exclude", "rag"],
]


def units(call):
    command = ["cargo", *call, "--release", "-Z", "unstable-options", "--unit-graph"]
    environment = dict(os.environ, RUSTC_BOOTSTRAP="1")
    return json.loads(subprocess.check_output(command, env=environment))["units"]


# Build scripts and procedural macros are compiled with a profile of their own, which leaves the
# number of codegen units to the compiler.
wanted = defaultdict(set)
for call in CALLS:
    for unit in units(call):
        is_script = "custom-build" in unit["target"]["kind"]
        if unit["pkg_id"].startswith("registry") and unit["mode"] == "build" and not is_script:
            name = unit["pkg_id"].rpartition("#")[2]
            is_host = unit["profile"]["codegen_units"] is None
            wanted[name, is_host].add(frozenset(unit["features"]))

twice = {key: sets for key, sets in wanted.items() if len(sets) > 1}
for (name, is_host), sets in sorted(twice.items()):
    missing = frozenset.union(*sets) - frozenset.intersection(*sets)
    section = "build-dependencies" if is_host else "dependencies"
    print(f"{name}, [{section}]: {', '.join(sorted(missing))}")
sys.exit(1 if twice else 0)
