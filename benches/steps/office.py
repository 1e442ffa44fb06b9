"""A folder of 3,000 documents in six formats: the first sync, one without changes, and one with a
hundredth changed."""

import os
import sys
import time

from support.database import add_folder, fresh_database, sync
from support.results import note, row

sys.path.insert(0, os.environ["BENCH_FORMATS"])
import formats  # noqa: E402: it needs the folder

ENDINGS = ["docx", "pptx", "xlsx", "odt", "html", "eml"]
EACH = 500
CHANGED = 5
PARAGRAPHS = 4


def content(number, version=1):
    """Returns a heading and paragraphs of the documentation."""
    blocks = [block for page in formats.pages() for block in page if formats.cells(block) is None]
    start = number * PARAGRAPHS % (len(blocks) - PARAGRAPHS)
    return [f"Document {number} in version {version}", *blocks[start:start + PARAGRAPHS]]


def write(folder, ending, number, version=1):
    path = os.path.join(folder, f"{number}.{ending}")
    writer = write_sheet if ending == "xlsx" else formats.FORMATS[ending][0]
    writer(path, content(number, version))


def write_sheet(path, blocks):
    """Writes a sheet with a line for each paragraph."""
    import openpyxl
    book = openpyxl.Workbook()
    book.active.append(["place", "text"])
    for number, block in enumerate(blocks):
        book.active.append([number, block])
    book.save(path)


def main():
    folder = os.path.join(os.environ["BENCH_SCRATCH"], "office")
    os.makedirs(folder)
    for ending in ENDINGS:
        for number in range(EACH):
            write(folder, ending, number)
    connection = fresh_database("office")
    add_folder(connection, "office", folder)
    report("first sync", *sync(connection, "office"))
    report("sync without changes", *sync(connection, "office"))
    time.sleep(1)  # so that files changed now have other times
    for ending in ENDINGS:
        for number in range(CHANGED):
            write(folder, ending, number, version=2)
    report(f"sync with {CHANGED * len(ENDINGS)} changed", *sync(connection, "office"))


def report(what, seconds, run):
    row(f"office, {len(ENDINGS) * EACH} documents of {len(ENDINGS)} formats, {what}, s",
        f"{seconds:.1f}")
    stages = ["fetch", "extract", "embed", "store"]
    times = ", ".join(f"{stage} {run[f'{stage}_seconds']:.1f}" for stage in stages)
    note(f"added {run['documents_added']}, updated {run['documents_updated']}, failed "
        f"{run['documents_failed']}, chunks written {run['chunks_written']}; seconds: {times}")


if __name__ == "__main__":
    main()
