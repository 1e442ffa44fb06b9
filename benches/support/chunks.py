"""Up to 100,000 chunks: real embeddings of documentation, and texts of sentences of SciFact."""

import os
import random
import re

import numpy

from support import scifact

FOLDER = os.path.join(os.environ["BENCH_DATA"], "ann")
DIMENSIONS = 384


def vectors(name):
    stored = numpy.fromfile(os.path.join(FOLDER, f"minilm-100k.{name}.f16"), dtype=numpy.float16)
    return stored.reshape(-1, DIMENSIONS).astype(numpy.float32)


def as_text(vector):
    """Six digits are as many as the stored values have."""
    return "[" + ",".join(f"{x:.6g}" for x in vector) + "]"


def texts(count):
    """Returns an iterator over texts of 800 to 1,000 characters, the same in each run."""
    sentences = [re.split(r"(?<=\. )", document["text"]) for document in scifact.documents()]
    chosen = random.Random(1)
    for _ in range(count):
        text = ""
        while len(text) < 800:
            document = chosen.choice(sentences)
            at = chosen.randrange(len(document))
            text += "".join(document[at:at + 2])
        yield text[:1000]
