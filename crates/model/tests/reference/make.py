#!/usr/bin/env python3
"""Makes the small models of this folder, and what transformers computes with them.

Each has random weights, a tokenizer that was trained on a few sentences, and `expected.json`: the
texts, their token ids, and the vectors or scores. Tests of rag-engine convert the models and
compare. They need no Python. The folders `layout-*` have the files of published models of that
family: prompts, layers and pooling come from them.

    pip install torch transformers sentence-transformers
    python make.py [NAME ...]
"""

import json
import pathlib
import shutil
import sys

import torch
import transformers as tf
from safetensors.torch import load_file, save_file
from tokenizers import (
    Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers)

HERE = pathlib.Path(__file__).parent
WORDS = 200
SIZE = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
TEXTS = [
    "red",
    "How do I rotate the signing keys of the server?",
    "Die Schlüssel werden ÜBERALL erneuert: naïve café, 東京 and Ελλάδα!",
    "A longer text about keys, locks and doors. " * 12,
]
PAIRS = [
    ["rotate keys", "The keys of the server are rotated each year."],
    ["rotate keys", "Bread is baked in an oven."],
    ["Where is the lock of the door? " * 6, "The doors and locks are listed here. " * 12],
    ["", "nothing was asked"],
]
CORPUS = TEXTS + [text for pair in PAIRS for text in pair] + [
    "the server signs each key, and the door keeps the lock", "bread and water", "a year of keys",
]


def wordpiece(pairs=True):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(
        vocab_size=WORDS, special_tokens=special, show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def mpnet_wordpiece():
    """As BERT's, with RoBERTa's special tokens."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(CORPUS, trainers.WordPieceTrainer(
        vocab_size=WORDS, special_tokens=["<s>", "<pad>", "</s>", "[UNK]", "<mask>"],
        show_progress=False))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def bpe():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=320, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return tokenizer


def modern_bpe():
    tokenizer = bpe()
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


def unigram():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(CORPUS, trainers.UnigramTrainer(
        vocab_size=WORDS, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>",
        show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)])
    return tokenizer


def randomize(model):
    torch.manual_seed(17)
    for name, value in model.named_parameters():
        noise = torch.randn_like(value)
        if value.dim() > 1:
            scale = 1.0 if "embedding" in name else 1.4 / value.shape[-1] ** 0.5
            value.data = noise * scale
        else:
            is_norm = "norm" in name.lower() and name.endswith("weight")
            value.data = noise * 0.2 + (1.0 if is_norm else 0.0)
    return model.eval()


def pooled(hidden, mode):
    return {
        "mean": lambda: hidden.mean(0), "cls": lambda: hidden[0],
        "max": lambda: hidden.max(0).values, "lasttoken": lambda: hidden[-1],
    }[mode]()


def sentence_files(path, pooling, tokens, dense=None):
    keys = {"mean": "mean_tokens", "cls": "cls_token", "max": "max_tokens",
            "lasttoken": "lasttoken"}
    write(path / "1_Pooling/config.json", {
        "word_embedding_dimension": 24,
        **{f"pooling_mode_{key}": mode == pooling for mode, key in keys.items()}})
    steps = [("", "Transformer"), ("1_Pooling", "Pooling")]
    if dense is not None:
        steps.append(("2_Dense", "Dense"))
        write(path / "2_Dense/config.json", {
            "in_features": 24, "out_features": 12, "bias": True,
            "activation_function": "torch.nn.modules.activation.Tanh"})
        save_file({"linear.weight": dense.weight.data, "linear.bias": dense.bias.data},
                  path / "2_Dense/model.safetensors")
    steps.append((f"{len(steps)}_Normalize", "Normalize"))
    write(path / "modules.json", [
        {"idx": n, "name": str(n), "path": folder, "type": f"sentence_transformers.models.{kind}"}
        for n, (folder, kind) in enumerate(steps)])
    write(path / "sentence_bert_config.json", {"max_seq_length": tokens})


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False) + "\n")


def rounded(values):
    return [round(value, 6) for value in values]


def start(name, model, tokenizer, dtype=None):
    path = HERE / name
    shutil.rmtree(path, ignore_errors=True)
    model.config.architectures = [type(model).__name__]
    if dtype:
        # both sides compute with the rounded weights
        for value in model.parameters():
            value.data = value.data.to(dtype).float()
    model.save_pretrained(path)
    if dtype:
        file = path / "model.safetensors"
        save_file({key: value.to(dtype) for key, value in load_file(file).items()}, file)
    (path / "generation_config.json").unlink(missing_ok=True)
    tokenizer.save(str(path / "tokenizer.json"), pretty=False)
    return path


def embedding(name, model, tokenizer, pooling, tokens, dense=False, dtype=None):
    model = randomize(model)
    path = start(name, model, tokenizer, dtype)
    torch.manual_seed(18)
    layer = torch.nn.Linear(24, 12) if dense else None
    sentence_files(path, pooling, tokens, layer)
    tokenizer.enable_truncation(tokens)
    ids = [tokenizer.encode(text).ids for text in TEXTS]
    vectors = []
    with torch.no_grad():
        for text in ids:
            vector = pooled(model(torch.tensor([text])).last_hidden_state[0], pooling)
            vector = torch.tanh(layer(vector)) if dense else vector
            vectors.append(rounded((vector / vector.norm()).tolist()))
    write(path / "expected.json", {"texts": TEXTS, "ids": ids, "vectors": vectors})
    return path


def scoring(name, model, tokenizer, tokens, has_segments=False, dtype=None):
    model = randomize(model)
    path = start(name, model, tokenizer, dtype)
    write(path / "tokenizer_config.json", {"model_max_length": tokens})
    tokenizer.enable_truncation(tokens, strategy="longest_first")
    ids, scores = [], []
    with torch.no_grad():
        for query, document in PAIRS:
            encoding = tokenizer.encode(query, document)
            inputs = {"input_ids": torch.tensor([encoding.ids])}
            if has_segments:
                inputs["token_type_ids"] = torch.tensor([encoding.type_ids])
            ids.append(encoding.ids)
            scores.append(model(**inputs).logits[0, 0].item())
    write(path / "expected.json", {"pairs": PAIRS, "ids": ids, "scores": rounded(scores)})


def config(kind, tokenizer, **more):
    return kind(**{**SIZE, "vocab_size": tokenizer.get_vocab_size(), **more})


def small(kind, tokenizer, **more):
    return config(kind, tokenizer, **{"hidden_size": 16, "intermediate_size": 24, **more})


def distil(tokenizer, **more):
    return tf.DistilBertConfig(vocab_size=tokenizer.get_vocab_size(), dim=24, n_layers=2, n_heads=2,
                               hidden_dim=32, max_position_embeddings=64, **more)


def modern(tokenizer, **more):
    return config(tf.ModernBertConfig, tokenizer, num_hidden_layers=5, max_position_embeddings=160,
                  local_attention=16, pad_token_id=1, bos_token_id=0, eos_token_id=2,
                  cls_token_id=0, sep_token_id=2, **more)


def nomic(name):
    """As nomic-ai publishes it: other names of fields than those of transformers."""
    tokenizer = wordpiece()
    model = tf.NomicBertModel(config(tf.NomicBertConfig, tokenizer, max_position_embeddings=128))
    path = embedding(name, model, tokenizer, "mean", 128)
    write(path / "config.json", {
        "architectures": ["NomicBertModel"], "model_type": "nomic_bert", "n_embd": 24, "n_layer": 2,
        "n_head": 2, "n_inner": 32, "n_positions": 8192, "max_trained_positions": 128,
        "activation_function": "swiglu", "layer_norm_epsilon": 1e-12, "rotary_emb_base": 1000,
        "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
        "rotary_scaling_factor": 2, "qkv_proj_bias": False, "mlp_fc1_bias": False,
        "mlp_fc2_bias": False, "prenorm": False, "use_rms_norm": False, "parallel_block": False,
        "causal": False, "type_vocab_size": 2, "vocab_size": tokenizer.get_vocab_size()})


QUERIES = ["red", "How do I rotate the signing keys of the server?"]
INSTRUCTION = "Represent this sentence for searching relevant passages: "


def layout(name, model, tokenizer, pooling, tokens, *, dense=None, normalizes=True, prompts=None,
           more=None, config=None, dtype=torch.float16):
    """A folder as it is published, and what sentence-transformers makes of queries and passages
    without any settings: `prompts`, `dense` layers (inputs, outputs, activation), and `more` keys
    of `config_sentence_transformers.json`."""
    model = randomize(model)
    path = start(name, model, tokenizer, dtype)
    hidden = model.config.hidden_size
    keys = {"mean": "mean_tokens", "cls": "cls_token"}
    write(path / "1_Pooling/config.json", {
        "word_embedding_dimension": hidden, "include_prompt": True,
        **{f"pooling_mode_{key}": mode == pooling for mode, key in keys.items()}})
    steps = [("", "Transformer"), ("1_Pooling", "Pooling")]
    torch.manual_seed(19)
    for inputs, outputs, activation in dense or []:
        layer = torch.nn.Linear(inputs, outputs)
        folder = path / f"{len(steps)}_Dense"
        write(folder / "config.json", {
            "in_features": inputs, "out_features": outputs, "bias": True,
            "activation_function": f"torch.nn.modules.{activation}"})
        save_file({"linear.weight": layer.weight.data, "linear.bias": layer.bias.data},
                  folder / "model.safetensors")
        steps.append((folder.name, "Dense"))
    if normalizes:
        steps.append((f"{len(steps)}_Normalize", "Normalize"))
    write(path / "modules.json", [
        {"idx": n, "name": str(n), "path": folder, "type": f"sentence_transformers.models.{kind}"}
        for n, (folder, kind) in enumerate(steps)])
    write(path / "sentence_bert_config.json", {"max_seq_length": tokens, "do_lower_case": False})
    names = {key: token for key in ("pad_token", "unk_token", "cls_token", "sep_token")
             for token in (f"[{key[:3].upper()}]", {"pad_token": "<pad>", "unk_token": "<unk>",
                           "cls_token": "<s>", "sep_token": "</s>"}[key])
             if tokenizer.token_to_id(token) is not None}
    write(path / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": tokens, **names})
    if prompts is not None or more:
        write(path / "config_sentence_transformers.json", {
            "__version__": {"sentence_transformers": "5.0.0"}, "default_prompt_name": None,
            "similarity_fn_name": "cosine", "prompts": prompts or {}, **(more or {})})
    if config:
        file = path / "config.json"
        write(file, {**json.loads(file.read_text()), **config})
    from sentence_transformers import SentenceTransformer
    sentences = SentenceTransformer(str(path), device="cpu", model_kwargs={"dtype": "float32"})
    # encode_document would prefer its own empty "document" to a "passage" of the folder, and both
    # functions theirs to the default
    given = {key: text for key, text in (prompts or {}).items() if text is not None}
    default = given.get((more or {}).get("default_prompt_name"), "")
    vectors = {}
    for kind, names, texts in (("queries", ["query"], QUERIES),
                               ("passages", ["document", "passage", "corpus"], TEXTS)):
        prompt = next((given[name] for name in names if name in given), default)
        found = sentences.encode(texts, prompt=prompt)
        vectors[kind] = [rounded(vector.tolist()) for vector in found]
    write(path / "expected.json", {
        "texts": {"queries": QUERIES, "passages": TEXTS}, "vectors": vectors})


def main(names):
    roberta = dict(max_position_embeddings=66, type_vocab_size=1, pad_token_id=1, bos_token_id=0,
                   eos_token_id=2, layer_norm_eps=1e-5)
    one = dict(num_labels=1)
    w, m, b, mb, u = wordpiece(), mpnet_wordpiece(), bpe(), modern_bpe(), unigram()
    mp = dict(max_position_embeddings=66, pad_token_id=1)
    makers = {
        "bert": lambda n: embedding(n, tf.BertModel(
            config(tf.BertConfig, w, max_position_embeddings=64), False), w, "mean", 64),
        "bert-dense": lambda n: embedding(n, tf.BertModel(
            config(tf.BertConfig, w, max_position_embeddings=64, hidden_act="gelu_new"), False),
            w, "cls", 48, dense=True, dtype=torch.float16),
        "roberta": lambda n: embedding(n, tf.RobertaModel(
            config(tf.RobertaConfig, b, **roberta), False), b, "cls", 64, dtype=torch.bfloat16),
        "xlm-roberta": lambda n: embedding(n, tf.XLMRobertaModel(
            config(tf.XLMRobertaConfig, u, **roberta), False), u, "lasttoken", 64),
        "xlm-roberta-long": lambda n: embedding(n, tf.XLMRobertaModel(
            config(tf.XLMRobertaConfig, u, **{**roberta, "max_position_embeddings": 1100}), False),
            u, "mean", 512, dtype=torch.float16),
        "mpnet": lambda n: embedding(n, tf.MPNetModel(
            config(tf.MPNetConfig, m, **mp), False), m, "mean", 64),
        "distilbert": lambda n: embedding(
            n, tf.DistilBertModel(distil(w)), w, "max", 64),
        "nomic-bert": nomic,
        "modernbert": lambda n: embedding(n, tf.ModernBertModel(modern(mb)), mb, "mean", 160),
        "layout-leaf-ir": lambda n: layout(n, tf.BertModel(
            small(tf.BertConfig, w, max_position_embeddings=128), False), w, "mean", 128,
            dense=[(16, 32, "linear.Identity")], prompts={"query": INSTRUCTION, "document": ""},
            config={"matryoshka_dimensions": [8, 16]}),
        "layout-granite-r2": lambda n: layout(n, tf.ModernBertModel(
            small(tf.ModernBertConfig, mb, num_hidden_layers=4, max_position_embeddings=160,
                  local_attention=16, pad_token_id=1, bos_token_id=0, eos_token_id=2,
                  cls_token_id=0, sep_token_id=2)), mb, "cls", 160, prompts={},
            dtype=torch.bfloat16),
        "layout-arctic": lambda n: layout(n, tf.BertModel(
            small(tf.BertConfig, w, max_position_embeddings=128), False), w, "cls", 128,
            prompts={"query": INSTRUCTION}, more={"truncate_dim": 8}),
        "layout-bge": lambda n: layout(n, tf.BertModel(
            small(tf.BertConfig, w, max_position_embeddings=128), False), w, "cls", 128),
        "layout-e5": lambda n: layout(n, tf.XLMRobertaModel(small(
            tf.XLMRobertaConfig, u, **{**roberta, "max_position_embeddings": 130}), False),
            u, "mean", 128, prompts={"query": "query: ", "passage": "passage: "}),
        "layout-gte": lambda n: layout(n, tf.BertModel(
            small(tf.BertConfig, w, max_position_embeddings=128), False), w, "mean", 128,
            dense=[(16, 24, "activation.Tanh"), (24, 12, "activation.ReLU")], normalizes=False,
            prompts={"any": "text: "}, more={"default_prompt_name": "any"}),
        "bert-score": lambda n: scoring(n, tf.BertForSequenceClassification(
            config(tf.BertConfig, w, max_position_embeddings=64, **one)), w, 64, True),
        "xlm-roberta-score": lambda n: scoring(n, tf.XLMRobertaForSequenceClassification(
            config(tf.XLMRobertaConfig, u, **roberta, **one)), u, 64),
        "distilbert-score": lambda n: scoring(n, tf.DistilBertForSequenceClassification(
            distil(w, **one)), w, 64, dtype=torch.float16),
        "mpnet-score": lambda n: scoring(n, tf.MPNetForSequenceClassification(
            config(tf.MPNetConfig, m, **mp, **one)), m, 64, dtype=torch.float16),
        "modernbert-score": lambda n: scoring(n, tf.ModernBertForSequenceClassification(
            modern(mb, classifier_pooling="mean", **one)), mb, 160, dtype=torch.bfloat16),
    }
    for name in names or makers:
        makers[name](name)
        size = sum(file.stat().st_size for file in (HERE / name).rglob("*") if file.is_file())
        print(f"{name}: {size >> 10} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
