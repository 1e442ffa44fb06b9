"""BEIR SciFact: documents, queries, judgements, and the measure of search quality."""

import json
import math
import os

FOLDER = os.path.join(os.environ["BENCH_DATA"], "ir", "scifact")


def _lines(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def documents():
    return _lines("corpus.jsonl")


def queries():
    return _lines("queries.jsonl")


def judgements():
    """query id -> {document id: relevance}"""
    relevant = {}
    with open(os.path.join(FOLDER, "qrels.tsv"), encoding="utf-8") as file:
        next(file)
        for line in file:
            query, document, grade = line.split()
            relevant.setdefault(query, {})[document] = int(grade)
    return relevant


def write_markdown(folder, chosen):
    """Writes one file per document, with its title in front matter: the title is not part of the
    text, but is embedded with it."""
    os.makedirs(folder)
    for document in chosen:
        path = os.path.join(folder, f"{document['_id']}.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                f"---\ntitle: {json.dumps(document['title'], ensure_ascii=False)}\n---\n{document['text']}\n")
        os.chmod(path, 0o644)
    os.chmod(folder, 0o755)


def ndcg_at_10(ranked, relevant):
    """Mean over the judged queries. `ranked`: query id -> document ids, best first."""
    total = 0.0
    for query, grades in relevant.items():
        gain = sum(grades.get(d, 0) / math.log2(rank + 2) for rank,
            d in enumerate(ranked.get(query, [])[:10]))
        best = sorted(grades.values(), reverse=True)[:10]
        total += gain / sum(g / math.log2(rank + 2) for rank, g in enumerate(best))
    return total / len(relevant)
