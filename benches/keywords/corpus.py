"""Makes the text: chunks of about 160 words from Debian's documentation packages, and queries.

    python3 -m keywords.corpus FOLDER

Downloads the packages of packages.txt with apt-get into FOLDER/packages. Writes to FOLDER:

    chunks.tsv    package and text of each chunk
    held.tsv      the same of documents that are held out: for queries, and for rows to insert
    queries.txt   pieces of sentences and headings of held-out documents, two to one

Does nothing if they were made of the same packages.txt. Exact duplicates are dropped, and so is
what is not English prose, by its share of frequent words.
"""

import gzip
import hashlib
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile

from keywords.markup import paragraphs_of_html, paragraphs_of_text

LIST = os.path.join(os.path.dirname(__file__), "packages.txt")
SEED = 20261123
# Words of a chunk. It ends with a paragraph if it has enough, and is cut before it is too long.
ENOUGH, CUT, TOO_LONG = 150, 170, 220
SHORTEST = 40
LARGEST_FILE = 4_000_000
# No package may dominate the text.
CHUNKS_OF_PACKAGE = 30_000
# One document of so many is held out.
HELD_OUT = 25
QUERIES = 4_000
# Names of folders with translations, without the country.
TRANSLATIONS = set(
    "ar ca cs da de el es fa fi fr hr hu id it ja ko nb nl pl pt ro ru sv tr uk vi zh".split()
)
FREQUENT = set("a an and are as at be by can for if in is it not of on or that the this to".split())
FREQUENT_SHARE = 0.12
LETTERS_SHARE = 0.7


def main(folder):
    if same(LIST, os.path.join(folder, "packages.txt")):
        return
    with open(LIST) as file:
        names = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    packages = download(names, os.path.join(folder, "packages"))
    seen = set()
    counts = {"chunks": 0, "held": 0}
    headings, held_texts = [], []
    writer = {name: open(os.path.join(folder, f"{name}.tsv"), "w") for name in counts}
    with multiprocessing.Pool() as pool:
        for name, documents in zip(names, pool.imap(read_package, packages)):
            kept = 0
            for document in documents:
                kind = "held" if document.is_held_out else "chunks"
                for text in document.chunks:
                    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
                    if digest in seen:
                        continue
                    seen.add(digest)
                    writer[kind].write(f"{name}\t{text}\n")
                    counts[kind] += 1
                    kept += 1
                    if document.is_held_out:
                        held_texts.append(text)
                if document.is_held_out:
                    headings += document.headings
            print(f"   {name}: {kept:,} chunks", flush=True)
    for file in writer.values():
        file.close()
    with open(os.path.join(folder, "queries.txt"), "w") as file:
        for query in queries(headings, held_texts):
            file.write(f"{query}\n")
    print(f"   {counts['chunks']:,} chunks, {counts['held']:,} held out", flush=True)
    shutil.copy(LIST, folder)


def same(path, other):
    if not os.path.exists(other):
        return False
    with open(path) as first, open(other) as second:
        return first.read() == second.read()


def download(names, folder):
    """Returns the packages' files, in the order of their names."""
    os.makedirs(folder, exist_ok=True)
    files = lambda: {file.split("_")[0]: file for file in os.listdir(folder) if "_" in file}
    missing = [name for name in names if name not in files()]
    if missing:
        print(f"   apt-get download: {len(missing)} packages", flush=True)
        subprocess.run(["apt-get", "-qq", "download", *missing], cwd=folder, check=True)
    return [os.path.join(folder, files()[name]) for name in names]


class Document:
    """A file of a package."""

    def __init__(self, path, paragraphs):
        # decided by the name, so that it does not depend on the other files
        self.is_held_out = hashlib.blake2b(path.encode()).digest()[0] % HELD_OUT == 0
        self.chunks = [text for text in map(" ".join, cut(paragraphs)) if is_prose(text)]
        self.headings = []
        if self.is_held_out and self.chunks:
            self.headings = [each.text for each in paragraphs if each.is_heading]


def read_package(package):
    """Returns documents of a package, at random if it is large, in the order of their names."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as deb:
        with tarfile.open(fileobj=deb.stdout, mode="r|") as archive:
            files = {
                member.name: archive.extractfile(member).read()
                for member in archive
                if member.isfile() and member.size <= LARGEST_FILE and kind(member.name)
            }
    names = sorted(files)
    random.Random(f"{SEED} {os.path.basename(package).split('_')[0]}").shuffle(names)
    documents, found = {}, 0
    for name in names:
        if found >= CHUNKS_OF_PACKAGE:
            break
        document = documents[name] = Document(name, paragraphs(name, files[name]))
        found += len(document.chunks)
    return [documents[name] for name in sorted(documents)]


def kind(name):
    """Returns the function that reads a file with this name, or None."""
    name = name.removesuffix(".gz")
    folders = name.split("/")[:-1]
    # pages of Sphinx have their sources beside them
    if "_sources" in folders or any(re.split("[-_]", each)[0] in TRANSLATIONS for each in folders):
        return None
    if name.endswith((".html", ".htm", ".xhtml", ".html.en")):
        return paragraphs_of_html
    if name.endswith((".txt", ".rst", ".md")):
        return paragraphs_of_text
    return None


def paragraphs(name, content):
    if name.endswith(".gz"):
        content = gzip.decompress(content)
    return kind(name)(content.decode("utf-8", "replace").replace("\0", " "))


def cut(paragraphs):
    """Yields the words of each chunk."""
    words = []
    for paragraph in paragraphs:
        words += paragraph.text.split()
        while len(words) >= TOO_LONG:
            yield words[:CUT]
            words = words[CUT:]
        if len(words) >= ENOUGH:
            yield words
            words = []
    if len(words) >= SHORTEST:
        yield words


def is_prose(text):
    words = text.lower().split()
    frequent = sum(word in FREQUENT for word in words)
    letters = sum(map(str.isalpha, text)) + text.count(" ")
    return frequent >= FREQUENT_SHARE * len(words) and letters >= LETTERS_SHARE * len(text)


def queries(headings, texts):
    """Yields different texts: two pieces of sentences, a heading, and so on."""
    chance = random.Random(SEED)
    headings = sorted({text for text in headings if 2 <= len(text.split()) <= 14})
    chance.shuffle(headings)
    asked = set()
    for number in range(QUERIES):
        if number % 3 == 2 and headings:
            query = headings.pop()
        else:
            query = piece(chance, chance.choice(texts))
        if query and query.lower() not in asked:
            asked.add(query.lower())
            yield query


def piece(chance, text):
    """Returns a piece of one of the text's sentences, or None."""
    words = chance.choice(re.split(r"(?<=[.!?:;]) ", text)).split()
    length = chance.randint(3, 18)
    if len(words) < length:
        return None
    start = chance.randint(0, len(words) - length)
    return " ".join(words[start : start + length])


if __name__ == "__main__":
    main(sys.argv[1])
