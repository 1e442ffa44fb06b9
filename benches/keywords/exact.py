"""Exact BM25 of all documents, with whole lengths, in double precision."""

from collections import Counter

import numpy

K1, B = 1.2, 0.75
# Scores that differ by less than this share count as equal: rows of equal score have no order.
EQUAL = 1e-9


class Exact:
    """`documents`: the terms of each document, with repetitions."""

    def __init__(self, documents):
        numbers, frequencies, documents_of = {}, [], []
        lengths = numpy.zeros(len(documents))
        terms_of = []
        for number, terms in enumerate(documents):
            counts = Counter(terms)
            lengths[number] = counts.total()
            for term, count in counts.items():
                terms_of.append(numbers.setdefault(term, len(numbers)))
                frequencies.append(count)
            documents_of += [number] * len(counts)
        terms_of = numpy.array(terms_of, numpy.int32)
        order = numpy.argsort(terms_of, kind="stable")
        self.numbers = numbers
        self.starts = numpy.searchsorted(terms_of[order], numpy.arange(len(numbers) + 1))
        self.documents = numpy.array(documents_of, numpy.int32)[order]
        self.frequencies = numpy.array(frequencies, numpy.float64)[order]
        self.norms = K1 * (1 - B + B * lengths / lengths.mean())
        self.size = len(documents)

    @property
    def postings(self):
        return len(self.documents)

    def scores(self, query):
        """Returns the score of each document. `query`: terms, with repetitions."""
        scores = numpy.zeros(self.size)
        for term, count in Counter(query).items():
            if term not in self.numbers:
                continue
            number = self.numbers[term]
            part = slice(self.starts[number], self.starts[number + 1])
            found, frequency = self.documents[part], self.frequencies[part]
            idf = numpy.log(1 + (self.size - len(found) + 0.5) / (len(found) + 0.5))
            scores[found] += count * idf * frequency * (K1 + 1) / (frequency + self.norms[found])
        return scores


def best(scores, k=10):
    """Returns the numbers of the documents that match, the best first."""
    k = min(k, numpy.count_nonzero(scores))
    found = numpy.argpartition(-scores, k - 1)[:k] if k else numpy.array([], int)
    return found[numpy.argsort(-scores[found], kind="stable")]


def hits(scores, found, k=10):
    """Returns how many of `found` are among the k best, and the number that could be."""
    right = best(scores, k)
    if not len(right):
        return 0, 0
    least = scores[right[-1]] * (1 - EQUAL)
    return min(len(right), sum(scores[number] >= least for number in set(found))), len(right)
