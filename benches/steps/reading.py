"""Decoding, extracting and splitting without embedding, in one thread: the example `reading` of
crates/engine."""

import os
import re
import subprocess

from support.results import median, row

ROUNDS = 3
FIGURES = {
    "Markdown, the model's tokenizer": ("MB/s", 20),
    "Markdown, cheap counter": ("MB/s", None),
    "PDF, the model's tokenizer": ("pages/s", 200),
    "PDF, cheap counter": ("pages/s", None),
}


def main():
    command = [os.environ["BENCH_READING"], "--model", os.environ["BENCH_MODEL"]]
    if "BENCH_PDFIUM" in os.environ:
        command += ["--pdfium", os.environ["BENCH_PDFIUM"]]
    pdf = os.path.join(os.environ["BENCH_DATA"], "pdf")
    if os.path.isdir(pdf):
        command += ["--pdf", pdf]
    measured = {}
    for _ in range(ROUNDS):
        # one thread, so that processor time is comparable
        environment = os.environ | {"RAYON_NUM_THREADS": "1"}
        out = subprocess.run(command, check=True, capture_output=True, text=True,
            env=environment).stdout
        for what, rate in re.findall(r"^(.*?): \d+ files.* s: ([0-9.]+) ", out, re.M):
            measured.setdefault(what, []).append(float(rate))
    for what, rates in measured.items():
        unit, target = FIGURES[what]
        rate = median(rates)
        bound = (f">= {target}", rate >= target) if target else ("", None)
        row(f"reading {what}, {unit}", f"{rate:.1f}", target=bound[0], met=bound[1])


if __name__ == "__main__":
    main()
