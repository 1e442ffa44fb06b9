"""Prints the rows that the steps wrote to a file as one table."""

import json
import sys

COLUMNS = ["figure", "rag", "peer", "ratio", "target", "met"]


def main(path):
    with open(path) as file:
        rows = [json.loads(line) for line in file]
    if not rows:
        print("nothing was measured")
        return
    lines = [COLUMNS] + [[row[column] for column in COLUMNS] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))]
    print()
    for number, line in enumerate(lines):
        print(" | ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
        if number == 0:
            print("-|-".join("-" * width for width in widths))


main(sys.argv[1])
