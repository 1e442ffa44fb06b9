"""Texts with codes, names and identifiers in them, and queries that ask for these.

Everything is made from a seed, or is the Python standard library of the machine.
"""

import ast
import glob
import os
import random
import re
import subprocess
import sysconfig

PRODUCTS = [
    "AquaPump X200", "AquaPump X300", "CleanBot R5", "CleanBot R7", "SolarCharge Pro",
    "SolarCharge Mini", "AirSense 3", "AirSense 3 Plus", "SmartLock Z1", "HeatFlow HF-20",
    "HeatFlow HF-40", "GardenEye",
]
CODES = [f"E-{number}" for number in range(101, 131)] + [
    "ERR_AUTH_TIMEOUT", "ERR_AUTH_MISMATCH", "ERR_NET_TIMEOUT", "ERR_DISK_FULL", "ERR_NET_RESET",
    "FW_2.11.3", "FW_2.11.4", "FW_2.12.0", "net.retry.max", "net.retry.delay", "auth.token.ttl",
    "/etc/pump/flow.conf", "/etc/pump/main.conf",
]
SENTENCES = [
    "The device stops after twelve minutes and shows {code} on the display.",
    "Customer reports {code}; a restart did not help.",
    "After the update we see {code} every day.",
    "{code} appears when the network is slow or the timeout is short.",
    "Log says {code}, then the connection is reset.",
]
NOISE = [
    "The customer asks for a refund of the order.", "Please charge the battery and try again.",
    "Water leaks at the bottom of the pump.", "The disk of the gateway is full.",
    "Authentication took long, the timeout may be too short.", "The garden is large.",
    "No error was seen since the last visit.", "An invoice was wrong and the charge double.",
    "The lock opens, but the app does not show it.", "Delivery was late by 3 days.",
    "The net was down in the morning.", "We sent manual 117 and part 105.",
]


def other_spelling(code):
    """The code as people type it who do not copy it."""
    if code.startswith("E-"):
        return code.replace("-", "").lower()
    if code.startswith("ERR_"):
        return "".join(word.capitalize() for word in code.lower().split("_"))
    if code.startswith("FW_"):
        return code[3:]
    if code.startswith("/"):
        return code.rsplit("/", 1)[1]
    return code.replace(".", "-")


def tickets(count=10_000, seed=34):
    """Returns texts of tickets, and for each its product, code and order number."""
    chosen = random.Random(seed)
    texts, facts = [], []
    for number in range(count):
        product, code = chosen.choice(PRODUCTS), chosen.choice(CODES)
        order = f"SO-{20000 + number}"
        lines = [f"{product}, order {order}."]
        lines += chosen.sample(NOISE, chosen.randrange(1, 5))
        sentence = chosen.choice(SENTENCES).format(code=code)
        lines.insert(chosen.randrange(1, len(lines) + 1), sentence)
        texts.append(" ".join(lines))
        facts.append((product, code, order))
    return texts, facts


def ticket_queries(facts, count=200, seed=35):
    """Returns sets of queries: name -> [(query, numbers of the right tickets)]."""
    chosen = random.Random(seed)
    pairs = sorted({(product, code) for product, code, _ in facts})
    of = {}
    for number, (product, code, _) in enumerate(facts):
        of.setdefault((product, code), set()).add(number)
    asked = chosen.sample(pairs, count)
    orders = chosen.sample(range(len(facts)), count)
    return {
        "product + code": [(f"{p} {c}", of[p, c]) for p, c in asked],
        "product + code, spelled otherwise":
            [(f"{p} {other_spelling(c)}", of[p, c]) for p, c in asked],
        "order number": [(facts[number][2], {number}) for number in orders],
        "order number, digits alone": [(facts[number][2][3:], {number}) for number in orders],
        "product + code, in a question":
            [(f"what does {c} mean on the {p}?", of[p, c]) for p, c in asked],
    }


def python_library(files=150, seed=36):
    """Returns texts of files of the standard library, and queries for the methods that they call."""
    folder = sysconfig.get_paths()["stdlib"]
    names = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
    texts, methods = [], {}
    for name in random.Random(seed).sample(names, min(files, len(names))):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = file.read()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                methods.setdefault(node.func.attr, set()).add(len(texts))
        texts.append(text)
    return texts, [(method, found) for method, found in sorted(methods.items())]


PARTS = [
    "ball bearing", "hex bolt", "gear motor", "pressure sensor", "relief valve", "timing belt",
    "limit switch", "shaft seal", "fuse holder", "heat sink", "lead screw", "cable gland",
    "flow meter", "power supply", "stepper driver",
]
MAKERS = ["Norvik", "Tessaro", "Hallman", "Ikumi", "Brandt", "Okafor", "Delacroix", "Lindqvist"]
REMARKS = [
    "Fits conveyors and packing machines.", "Not for food contact.", "Replace every two years.",
    "Comes with a mounting kit.", "Suitable for outdoor use down to minus twenty degrees.",
    "Keep dry before installation.", "Tighten to the torque in the data sheet.",
    "Stocked in the Rotterdam warehouse.", "Delivery takes three to five working days.",
    "Certified for marine use.",
]


def catalogue(count=3000, asked=200, seed=77):
    """Returns texts of a catalogue of parts, and sets of queries for them."""
    chosen = random.Random(seed)
    texts, facts, alike = [], [], {}
    for number in range(count):
        part, maker = chosen.choice(PARTS), chosen.choice(MAKERS)
        code = f"{maker[:2].upper()}{chosen.randrange(100, 1000)}-{chosen.randrange(10, 100)}" \
            f"{chosen.choice('ABCDEFGHKLM')}"
        article = str(chosen.randrange(1_000_000, 9_999_999))
        size = f"{chosen.randrange(4, 80)} mm"
        remarks = " ".join(chosen.sample(REMARKS, chosen.randrange(2, 6)))
        texts.append(f"{maker} {part}, {size}. Part number {code}. {remarks} "
            f"Replaces article {article}.")
        facts.append((maker, part, size, code, article))
        alike.setdefault((maker, part, size), set()).add(number)
    numbers = chosen.sample(range(count), asked)
    queries = {kind: [] for kind in ("part number", "part number, spaced", "maker + part number",
        "article", "article, in a question", "maker, part and size")}
    for number in numbers:
        maker, part, size, code, article = facts[number]
        queries["part number"].append((code, {number}))
        queries["part number, spaced"].append((code.replace("-", " ").lower(), {number}))
        queries["maker + part number"].append((f"{maker} {code}", {number}))
        queries["article"].append((article, {number}))
        question = f"which {part} from {maker} replaces {article}?"
        queries["article, in a question"].append((question, {number}))
        names = f"{maker} {part} {size}"
        queries["maker, part and size"].append((names, alike[maker, part, size]))
    return texts, queries


def repository(asked=150, seed=6, limit=12_000):
    """Returns texts of this repository's files, and queries for names in them."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    listed = subprocess.run(["git", "ls-files", "*.rs", "*.md", "*.sql"], cwd=root, text=True,
        check=True, capture_output=True).stdout.split()
    chosen = random.Random(seed)
    texts = []
    for name in chosen.sample(sorted(listed), min(250, len(listed))):
        with open(os.path.join(root, name), encoding="utf-8") as file:
            text = file.read()
        if len(text) < limit:
            texts.append(text)
    files = {}
    for number, text in enumerate(texts):
        for name in set(re.findall(r"[A-Za-z_]\w*", text)):
            files.setdefault(name, set()).add(number)
    files = {name: found for name, found in files.items() if len(name) > 3 and len(found) <= 20}
    is_compound = re.compile(r"[a-z]_[a-z]|[a-z][A-Z]").search
    compounds = sorted(name for name in files if is_compound(name))
    defined = set(re.findall(r"\b(?:fn|struct|enum|trait|const|type) (\w+)", "\n".join(texts)))
    words = sorted(name for name in defined & files.keys() if name.isalpha() and name.islower())
    pairs = []
    while len(pairs) < asked:
        one, other = chosen.sample(compounds, 2)
        if files[one] & files[other]:
            pairs.append((f"{one} {other}", files[one] & files[other]))
    compounds, words = (chosen.sample(names, min(asked, len(names)))
        for names in (compounds, words))
    return texts, {
        "compound names": [(name, files[name]) for name in compounds],
        "names of one word": [(name, files[name]) for name in words],
        "two names": pairs,
    }


def documented_functions(count=1200, asked=300, seed=8):
    """Returns functions of the standard library without their documentation, and the first
    sentences of it as queries for them."""
    folder = sysconfig.get_paths()["stdlib"]
    found = []
    for path in sorted(glob.glob(folder + "/**/*.py", recursive=True)):
        if re.search("/test|site-packages|idlelib", path):
            continue
        try:
            with open(path, encoding="utf-8") as file:
                source = file.read()
            tree = ast.parse(source)
        except (SyntaxError, UnicodeDecodeError):
            continue
        lines = source.split("\n")
        for node in ast.walk(tree):
            says = isinstance(node, ast.FunctionDef) and ast.get_docstring(node)
            if not says or not 5 <= node.end_lineno - node.lineno <= 60:
                continue
            first = node.body[0]
            code = lines[node.lineno - 1:first.lineno - 1] + lines[first.end_lineno:node.end_lineno]
            if len(code) < 3:
                continue
            query = says.split("\n\n")[0].replace("\n", " ")[:300]
            is_asked = len(query.split()) >= 4 and node.name not in query
            found.append(("\n".join(code), query if is_asked else None))
    chosen = random.Random(seed)
    found = chosen.sample(found, min(count, len(found)))
    queries = [(query, {number}) for number, (_, query) in enumerate(found) if query]
    sample = chosen.sample(queries, min(asked, len(queries)))
    return [text for text, _ in found], {"sentences of their documentation": sample}
