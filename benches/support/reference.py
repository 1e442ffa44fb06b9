"""The reference for the model's figures: ONNX Runtime and tokenizers under Python, used with care."""

import os

import numpy
import onnxruntime
import tokenizers

MAX_TOKENS = 256
# The precisions to measure; BENCH_PRECISIONS=int8 halves the time.
PRECISIONS = os.environ.get("BENCH_PRECISIONS", "int8 fp32").split()
FILES = {"int8": "model_int8.onnx", "fp32": "model.onnx"}


def providers():
    """Returns precisions and the providers that compute them in the server."""
    found = [(precision, "cpu") for precision in PRECISIONS]
    if "fp32" in PRECISIONS and os.path.exists(os.environ["BENCH_OPENVINO"]):
        found.append(("fp32", "openvino"))
    return found


def has_vnni():
    with open("/proc/cpuinfo") as processors:
        text = processors.read()
    return "avx512_vnni" in text or "avx_vnni" in text


class Reference:
    def __init__(self, precision, threads=2, spinning=True, batch=8, graph=None):
        """`graph` is the path of another graph of this precision than the server's."""
        folder = os.environ["BENCH_MODEL"]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning",
            "1" if spinning else "0")
        # As in rag-engine: the same products of 8-bit integers on every processor. Slower
        # instructions are needed for that where VNNI is missing, and only there.
        options.add_session_config_entry("session.x64quantprecision", "0" if has_vnni() else "1")
        path = graph or os.path.join(folder, FILES[precision])
        self.session = onnxruntime.InferenceSession(path, options,
            providers=["CPUExecutionProvider"])
        self.inputs = {i.name for i in self.session.get_inputs()}
        # without a mask, texts of different lengths cannot be in one run
        self.batch = batch if "attention_mask" in self.inputs else 1
        self.tokenizer = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MAX_TOKENS)

    def count_tokens(self, texts):
        self.tokenizer.no_truncation()
        counts = [len(e.ids) for e in self.tokenizer.encode_batch(texts)]
        self.tokenizer.enable_truncation(MAX_TOKENS)
        return counts

    def embed(self, texts):
        """Returns one row per text, computed in batches of texts of similar length."""
        ids = [e.ids for e in self.tokenizer.encode_batch(texts)]
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        vectors = None
        for start in range(0, len(order), self.batch):
            batch = order[start : start + self.batch]
            width = max(len(ids[i]) for i in batch)
            tokens = numpy.zeros((len(batch), width), numpy.int64)
            mask = numpy.zeros_like(tokens)
            for row, i in enumerate(batch):
                tokens[row, : len(ids[i])] = ids[i]
                mask[row, : len(ids[i])] = 1
            feed = {"input_ids": tokens, "attention_mask": mask,
                "token_type_ids": numpy.zeros_like(tokens)}
            output = self.session.run(None, {name: feed[name] for name in self.inputs})[0]
            if vectors is None:
                vectors = numpy.zeros((len(ids), output.shape[1]), numpy.float32)
            vectors[batch] = output
        return vectors
