"""Rows of the final table, and their statistics."""

import json
import os
import statistics

median = statistics.median


def note(text):
    """Prints a remark that is not a row of the table."""
    print(f"   {text}", flush=True)


def row(figure, rag, peer="", ratio=None, target="", met=None):
    """Adds a row. `met` is True if the target is reached, None without a target."""
    line = {
        "figure": figure,
        "rag": rag,
        "peer": peer,
        "ratio": "" if ratio is None else f"{ratio:.2f}",
        "target": target,
        "met": "" if met is None else ("yes" if met else "NO"),
    }
    with open(os.environ["BENCH_RESULTS"], "a") as file:
        file.write(json.dumps(line) + "\n")
    note(" | ".join(cell for cell in line.values() if cell))
