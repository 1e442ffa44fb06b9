"""How many texts of 30, 100 and 300 letters `rag_detect_language` tells right, by language.

The texts are the test data of the crates `lingua-*-language-model`: sentences of newspapers and
websites. Every second one is left out here, because the word lists of `crates/language` were tried
on it. BENCH_LANGUAGES names a folder of files `CODE.txt` to measure instead, a sentence a line.
"""

import collections
import glob
import os
import subprocess

from support.results import note, row

LENGTHS = (30, 100, 300)
TEXTS = 100  # of a language and a length
VERSION = "1.3.0"
CRATES = {
    "afrikaans": "af", "albanian": "sq", "arabic": "ar", "armenian": "hy", "azerbaijani": "az",
    "basque": "eu", "belarusian": "be", "bengali": "bn", "bokmal": "no", "bulgarian": "bg",
    "catalan": "ca", "chinese": "zh", "croatian": "hr", "czech": "cs", "danish": "da",
    "dutch": "nl", "english": "en", "esperanto": "eo", "estonian": "et", "finnish": "fi",
    "french": "fr", "german": "de", "greek": "el", "hebrew": "he", "hindi": "hi",
    "hungarian": "hu", "icelandic": "is", "indonesian": "id", "irish": "ga", "italian": "it",
    "japanese": "ja", "korean": "ko", "latin": "la", "latvian": "lv", "lithuanian": "lt",
    "macedonian": "mk", "malay": "ms", "marathi": "mr", "persian": "fa", "polish": "pl",
    "portuguese": "pt", "romanian": "ro", "russian": "ru", "serbian": "sr", "slovak": "sk",
    "slovene": "sl", "spanish": "es", "swahili": "sw", "swedish": "sv", "tagalog": "tl",
    "tamil": "ta", "thai": "th", "turkish": "tr", "ukrainian": "uk", "urdu": "ur",
    "vietnamese": "vi", "welsh": "cy",
}
# languages that are written without blanks
UNSPACED = ("ja", "th", "zh")


def fetched(folder):
    """Fetches the crates, and returns the sentences of each language."""
    os.makedirs(os.path.join(folder, "src"), exist_ok=True)
    with open(os.path.join(folder, "Cargo.toml"), "w") as file:
        file.write('[package]\nname = "texts"\nversion = "0.1.0"\n[workspace]\n[dependencies]\n')
        file.writelines(f'lingua-{name}-language-model = "={VERSION}"\n' for name in CRATES)
    open(os.path.join(folder, "src", "lib.rs"), "w").close()
    home = os.path.join(folder, "cargo")
    subprocess.run(["cargo", "fetch", "--quiet"], check=True, cwd=folder,
        env=os.environ | {"CARGO_HOME": home})
    texts = {}
    for name, code in CRATES.items():
        crate = f"lingua-{name}-language-model-{VERSION}"
        (path,) = glob.glob(f"{home}/registry/src/*/{crate}/testdata/sentences.txt")
        texts[code] = lines(path)[1::2]
    return texts


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip()]


def sentences():
    folder = os.environ.get("BENCH_LANGUAGES")
    if folder is None:
        return fetched(os.path.join(os.path.dirname(os.environ["BENCH_TEXT"]), "languages"))
    paths = sorted(glob.glob(os.path.join(folder, "*.txt")))
    return {os.path.basename(path)[:-4]: lines(path) for path in paths}


def cut(code, sentences, length):
    """Texts of at most `length` letters that end with a word; several sentences if need be."""
    texts, rest = [], iter(sentences)
    for text in rest:
        while len(text) < length and (more := next(rest, None)):
            text += " " + more
        if len(text) < length or len(texts) == TEXTS:
            break
        part = text[:length]
        is_inside = len(text) > length and not text[length].isspace()
        if is_inside and code not in UNSPACED and " " in part:
            part = part[:part.rindex(" ")]
        texts.append(part.replace("\t", " "))
    return texts


def measured(texts, usual=()):
    """Returns the answers of the example `accuracy` of crates/language."""
    given = "".join(f"{code}\t{text}\n" for code, _, text in texts)
    out = subprocess.run([os.environ["BENCH_ACCURACY"], *usual], input=given, check=True,
        capture_output=True, text=True).stdout
    return [line.split("\t")[2] for line in out.splitlines()]


def main():
    texts = [(code, length, text) for code, given in sorted(sentences().items())
        for length in LENGTHS for text in cut(code, given, length)]
    counts, confused = collections.defaultdict(collections.Counter), collections.Counter()
    for kind, usual in (("alone", ()), ("right", ("=",))):
        for (code, length, _), found in zip(texts, measured(texts, usual)):
            for name in (code, "all"):
                count = counts[name, length, kind]
                count["texts"] += 1
                count["right"] += found == code
                count["none"] += found == "und"
            if kind == "alone" and found not in (code, "und"):
                confused[code, found] += 1

    def share(name, length, kind, what):
        count = counts[name, length, kind]
        return round(100 * count[what] / max(1, count["texts"]))

    print("| language | " + " | ".join(f"{n}: right / none" for n in LENGTHS) + " |")
    print("|---|" + "---|" * len(LENGTHS))
    for name in sorted({code for code, _, _ in texts}) + ["all"]:
        cells = (f"{share(name, n, 'alone', 'right')} / {share(name, n, 'alone', 'none')}"
            for n in LENGTHS)
        print(f"| {name} | " + " | ".join(cells) + " |")
    note("taken for another language: " + ", ".join(
        f"{code} for {found} {count}" for (code, found), count in confused.most_common(20)))
    for length in LENGTHS:
        right, none = share("all", length, "alone", "right"), share("all", length, "alone", "none")
        row(f"language of {length} letters, % right / none", f"{right} / {none}")
        row("the same, among documents of the language, % right",
            f"{share('all', length, 'right', 'right')}")


if __name__ == "__main__":
    main()
