#!/usr/bin/env python3
"""Writes `bert/late.json`: the scores of late interaction of each text with each.

Computes the token vectors of the model `bert` by the formulas of the paper (arXiv 1810.04805), in
64 bits. Their means must be the vectors that `make.py` got from transformers.

    pip install numpy
    python late.py
"""

import json
import math
import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).parent / "bert"
CONFIG = json.loads((FOLDER / "config.json").read_text())


def read_weights():
    """https://github.com/huggingface/safetensors#format"""
    data = (FOLDER / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    weights = {}
    for name, tensor in header.items():
        assert tensor["dtype"] == "F32", tensor
        first, last = tensor["data_offsets"]
        values = np.frombuffer(data[start + first:start + last], dtype="<f4")
        weights[name] = values.reshape(tensor["shape"]).astype(np.float64)
    return weights


W = read_weights()


def dense(x, name):
    return x @ W[f"{name}.weight"].T + W[f"{name}.bias"]


def norm(x, name):
    centered = x - x.mean(-1, keepdims=True)
    scaled = centered / np.sqrt((centered ** 2).mean(-1, keepdims=True) + CONFIG["layer_norm_eps"])
    return scaled * W[f"{name}.weight"] + W[f"{name}.bias"]


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def attend(x, name):
    heads = CONFIG["num_attention_heads"]
    parts = [np.split(dense(x, f"{name}.{part}"), heads, axis=1)
             for part in ("query", "key", "value")]
    mixed = []
    for query, key, value in zip(*parts):
        similarity = query @ key.T / math.sqrt(query.shape[1])
        weights = np.exp(similarity - similarity.max(-1, keepdims=True))
        mixed.append(weights / weights.sum(-1, keepdims=True) @ value)
    return np.concatenate(mixed, axis=1)


def token_vectors(ids):
    words, rest = W["embeddings.word_embeddings.weight"], "embeddings.position_embeddings.weight"
    x = words[ids] + W[rest][:len(ids)] + W["embeddings.token_type_embeddings.weight"][0]
    x = norm(x, "embeddings.LayerNorm")
    for n in range(CONFIG["num_hidden_layers"]):
        layer = f"encoder.layer.{n}"
        mixed = dense(attend(x, f"{layer}.attention.self"), f"{layer}.attention.output.dense")
        x = norm(x + mixed, f"{layer}.attention.output.LayerNorm")
        wide = gelu(dense(x, f"{layer}.intermediate.dense"))
        x = norm(x + dense(wide, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    return x


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def main():
    expected = json.loads((FOLDER / "expected.json").read_text())
    tokens = [token_vectors(ids) for ids in expected["ids"]]
    means = np.array([unit(vectors.mean(0)) for vectors in tokens])
    assert np.abs(means - expected["vectors"]).max() < 2e-6
    scores = [[round(float((unit(query) @ unit(document).T).max(1).mean()), 6)
               for document in tokens] for query in tokens]
    (FOLDER / "late.json").write_text(json.dumps(scores) + "\n")


main()
