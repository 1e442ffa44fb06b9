"""Texts with codes, names and identifiers in them, and queries that ask for these.

Everything is made from a seed, or is the Python standard library of the machine.
"""

import ast
import os
import random
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
