"""Documents of each format to text, in one thread, beside the Python package that is mostly used for
it. The documents are written from the pages of this repository's documentation, the PDFs are those
of the data sets."""

import glob
import os
import re
import subprocess
import sys

from support.results import median, note, row

ROUNDS = 3
# How many times each is read in a round, so that a start of a process does not count.
READS = 5
DOCUMENTS = 20
TARGET = 5


def pages():
    """Returns the paragraphs and tables of each page of the documentation."""
    found = []
    for path in sorted(glob.glob("docs/guide/*.md")):
        with open(path) as file:
            found.append(re.split(r"\n{2,}", file.read()))
    return found


def cells(block):
    """Returns the cells of a table, or None."""
    lines = block.splitlines()
    if not all(line.startswith("|") for line in lines):
        return None
    return [line.strip("|").split("|") for line in lines]


def write_docx(path, blocks):
    import docx
    document = docx.Document()
    for block in blocks:
        table = cells(block)
        if table:
            width = max(len(line) for line in table)
            target = document.add_table(len(table), width)
            for line, source in zip(target.rows, table):
                for cell, text in zip(line.cells, source):
                    cell.text = text
        elif block.startswith("#"):
            document.add_heading(block.lstrip("# "), 1)
        else:
            document.add_paragraph(block)
    document.save(path)


def write_pptx(path, blocks):
    import pptx
    slides = pptx.Presentation()
    for start in range(0, len(blocks), 4):
        slide = slides.slides.add_slide(slides.slide_layouts[1])
        slide.shapes.title.text = blocks[start].lstrip("# ")[:60]
        slide.placeholders[1].text = "\n".join(blocks[start + 1:start + 4])
    slides.save(path)


def write_xlsx(path, blocks):
    import openpyxl
    book = openpyxl.Workbook()
    for n in range(20):
        for number, block in enumerate(blocks):
            book.active.append([n, number, len(block), block[:200]])
    book.save(path)


def write_odt(path, blocks):
    from odfdo import Document, Paragraph
    document = Document("text")
    document.body.clear()
    for block in blocks:
        document.body.append(Paragraph(block))
    document.save(path)


def write_html(path, blocks):
    from html import escape
    body = "".join(f"<p>{escape(block)}</p>\n" for block in blocks)
    with open(path, "w") as file:
        file.write(f"<html><head><title>Page</title></head><body><main>{body}</main></body></html>")


def write_eml(path, blocks):
    from email.message import EmailMessage
    message = EmailMessage()
    message["Subject"] = blocks[0]
    message["From"] = "ann@example.org"
    message.set_content("\n\n".join(blocks))
    with open(path, "wb") as file:
        file.write(bytes(message))


# What a peer does with a file, as code: `path` becomes `text`.
FORMATS = {
    "docx": (write_docx, "python-docx", """
import docx
def read(path):
    document = docx.Document(path)
    text = [paragraph.text for paragraph in document.paragraphs]
    for table in document.tables:
        text += [cell.text for line in table.rows for cell in line.cells]
    return "\\n".join(text)"""),
    "pptx": (write_pptx, "python-pptx", """
import pptx
def read(path):
    shapes = [shape for slide in pptx.Presentation(path).slides for shape in slide.shapes]
    return "\\n".join(shape.text_frame.text for shape in shapes if shape.has_text_frame)"""),
    "xlsx": (write_xlsx, "openpyxl", """
import openpyxl
def read(path):
    book = openpyxl.load_workbook(path, read_only=True)
    return "\\n".join(str(cell) for sheet in book for line in sheet.iter_rows(values_only=True)
        for cell in line)"""),
    "odt": (write_odt, "odfdo", """
from odfdo import Document
def read(path):
    return Document(path).get_formatted_text()"""),
    "html": (write_html, "trafilatura", """
import trafilatura
def read(path):
    with open(path) as file:
        return trafilatura.extract(file.read(), output_format="markdown") or ''"""),
    "eml": (write_eml, "email", """
import email, email.policy
def read(path):
    with open(path, "rb") as file:
        message = email.message_from_binary_file(file, policy=email.policy.default)
    return message.get_body().get_content()"""),
    "pdf": (None, "pypdf", """
from pypdf import PdfReader
def read(path):
    return "\\n".join(page.extract_text() for page in PdfReader(path).pages)"""),
}

PEER = """
import re, sys, time
{code}
reads, *paths = sys.argv[1:]
letters, began = 0, time.process_time()
for _ in range(int(reads)):
    for path in paths:
        letters += sum(sign.isalnum() for sign in read(path))
spent = time.process_time() - began
with open("/proc/self/status") as status:
    print(spent, letters, re.search(r"VmHWM:\\s*([0-9]+)", status.read())[1])
"""


def measured(command):
    """Returns seconds, letters and kB."""
    environment = os.environ | {"RAYON_NUM_THREADS": "1"}
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return [float(figure) for figure in out.stdout.split()[-3:]]


def main():
    sys.path.insert(0, os.environ["BENCH_FORMATS"])
    os.environ["PYTHONPATH"] = os.environ["BENCH_FORMATS"]
    folder = os.path.join(os.environ["BENCH_SCRATCH"], "formats")
    os.makedirs(folder)
    for ending, (write, peer, code) in FORMATS.items():
        paths = []
        if write is None:
            folder_of_pdfs = os.path.join(os.environ["BENCH_DATA"], "pdf")
            paths = [path for path in sorted(glob.glob(f"{folder_of_pdfs}/*.pdf"))
                if not re.search("encrypted|malformed|no-text|scan|truncated|zero", path)]
        else:
            for number, blocks in enumerate(pages()[:DOCUMENTS]):
                paths.append(os.path.join(folder, f"{number}.{ending}"))
                write(paths[-1], blocks)
        if not paths:
            note(f"{ending}: there are no files")
            continue
        size = sum(os.path.getsize(path) for path in paths) / 1e6
        reads = 1 if ending == "pdf" else READS
        command = [os.environ["BENCH_TIMED"], os.environ["BENCH_PDFIUM"], str(reads), *paths]
        program = [sys.executable, "-c", PEER.format(code=code), str(reads), *paths]
        both = [(measured(command), measured(program)) for _ in range(ROUNDS)]
        own, other = [median(round[side][0] for round in both) for side in (0, 1)]
        ratio = median(round[1][0] / round[0][0] for round in both)
        letters = both[0][0][1] / both[0][1][1]
        row(f"formats {ending}, MB/s ({peer})", f"{size * reads / own:.2f}",
            f"{size * reads / other:.2f}", ratio, f">= {TARGET} times", ratio >= TARGET)
        peaks = [both[0][side][2] / 1024 for side in (0, 1)]
        row(f"formats {ending}, peak MB", f"{peaks[0]:.0f}", f"{peaks[1]:.0f}")
        note(f"letters of the texts: {letters:.2f} of the peer's")


if __name__ == "__main__":
    main()
