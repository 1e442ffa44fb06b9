"""Values of Python as JSON and vectors that PostgreSQL takes."""

from __future__ import annotations

import enum
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID


def _default(value: Any) -> Any:
    """Times become ISO 8601, UUIDs and paths text, sets arrays, and numbers of NumPy numbers."""
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be stored as JSON; convert it to a text")


def _without_nul(value: Any) -> Any:
    """PostgreSQL cannot store the character U+0000, which texts of PDFs sometimes have."""
    if isinstance(value, str):
        return value.replace("\0", "") if "\0" in value else value
    if isinstance(value, Mapping):
        return {_without_nul(k): _without_nul(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nul(v) for v in value]
    return value


def to_json(value: Any, what: str = "the value") -> str:
    """Returns a value as JSON.

    Raises ValueError for NaN and infinity, and TypeError for what JSON does not have.
    """
    try:
        text = json.dumps(value, default=_default, ensure_ascii=False, allow_nan=False)
    except ValueError as e:
        raise ValueError(f"{what} has a number that JSON does not have (NaN or infinity)") from e
    except TypeError as e:
        raise TypeError(f"{what}: {e}") from e
    if "\\u0000" in text:
        text = json.dumps(_without_nul(json.loads(text)), ensure_ascii=False)
    return text


def to_floats(vector: Iterable[float], what: str = "the embedding") -> list[float]:
    """Returns the numbers of a vector. Raises ValueError if one is NaN or infinite."""
    numbers = [float(number) for number in vector]
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{what} has NaN or infinity; check the model that has computed it")
    return numbers


def to_vector(vector: Sequence[float] | None) -> str | None:
    """Returns a vector as the text that the type `vector` takes."""
    if vector is None:
        return None
    return "[" + ",".join(map(repr, to_floats(vector))) + "]"


def from_vector(text: str | None) -> list[float] | None:
    """Reads the text of the type `vector`."""
    return None if text is None else [float(n) for n in text.strip("[]").split(",")]
