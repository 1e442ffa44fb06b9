"""Filters of Haystack as filters of `rag_search`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from haystack.errors import FilterError

from .. import filters as rag_filters

_EQUALITY = {"==": "eq", "!=": "ne", "in": "in", "not in": "nin"}
_ORDER = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


def to_filter(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Returns the filter of rag_search for one of Haystack. Raises FilterError."""
    if not given:
        return None
    if "field" in given:
        return _condition(given)
    for member in ("operator", "conditions"):
        if member not in given:
            raise FilterError(f"'{member}' is missing in {dict(given)}")
    operator = str(given["operator"]).lower()
    if operator not in ("and", "or", "not"):
        raise FilterError(f"there is no logical operator {given['operator']!r}: AND, OR, NOT")
    parts = [to_filter(part) for part in given["conditions"]]
    if not parts or not all(parts):
        raise FilterError(f"a condition is empty in {dict(given)}")
    return rag_filters.group(operator, [part for part in parts if part])


def _is_time(value: Any) -> bool:
    if isinstance(value, datetime):
        return True
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return True


def _condition(given: Mapping[str, Any]) -> dict[str, Any]:
    for member in ("operator", "value"):
        if member not in given:
            raise FilterError(f"'{member}' is missing in {dict(given)}")
    field, operator, value = given["field"], given["operator"], given["value"]
    if field == "content":
        raise FilterError("the content is searched by a retriever, not by a filter")
    if field == "id":
        return {"key": "uri", "operator": _EQUALITY.get(operator, operator), "value": value}
    key = field.removeprefix("meta.")
    if operator in ("==", "!=") and value is None:
        absent = rag_filters.missing(key)
        return absent if operator == "==" else rag_filters.group("not", [absent])
    if operator in ("in", "not in") and not isinstance(value, list):
        raise FilterError(f"the value of {operator!r} must be a list, not {value!r}")
    if operator in _EQUALITY:
        return rag_filters.condition(key, _EQUALITY[operator], value)
    if operator not in _ORDER:
        known = ", ".join([*_EQUALITY, *_ORDER])
        raise FilterError(f"there is no operator {operator!r}; operators: {known}")
    if value is None:
        return rag_filters.nothing()
    if _is_time(value):
        return _time(key, operator, value)
    if isinstance(value, (str, list, dict)):
        raise FilterError(f"{operator!r} compares numbers and ISO 8601 times, not {value!r}")
    return rag_filters.condition(key, _ORDER[operator], value)


def _time(key: str, operator: str, value: Any) -> dict[str, Any]:
    at = value.isoformat() if isinstance(value, datetime) else value
    if operator == ">":
        return rag_filters.condition(key, "after", at)
    if operator == "<":
        return rag_filters.condition(key, "before", at)
    other = rag_filters.condition(key, "before" if operator == ">=" else "after", at)
    a_time = rag_filters.condition(key, "after", "0001-01-01T00:00:00Z")
    return rag_filters.group("and", [a_time, rag_filters.group("not", [other])])
