"""Filters of the frameworks as filters of `rag_search`. Only the notation changes: SQL filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Condition = dict[str, Any]

#: operators of the notation with `$` that have one counterpart
_OPERATORS = {
    "$eq": "eq",
    "$ne": "ne",
    "$lt": "lt",
    "$lte": "lte",
    "$gt": "gt",
    "$gte": "gte",
    "$in": "in",
    "$nin": "nin",
    "$contains": "contains",
}
_GROUPS = {"$and": "and", "$or": "or", "$not": "not"}


def condition(key: str, operator: str, value: Any) -> Condition:
    """A condition on a key of the metadata, also if a column has the same name."""
    return {"key": f"metadata.{key}", "operator": operator, "value": value}


def empty(key: str) -> Condition:
    return {"key": f"metadata.{key}", "operator": "empty"}


def group(operator: str, conditions: Sequence[Condition]) -> Condition:
    return {"operator": operator, "conditions": list(conditions)}


def missing(key: str) -> Condition:
    """The metadata do not have the key, or it is null."""
    blank = [condition(key, "ne", ""), condition(key, "ne", []), condition(key, "ne", {})]
    return group("and", [empty(key), *blank])


def nothing() -> Condition:
    """A filter that no chunk passes."""
    return {"key": "chunk_index", "operator": "in", "value": []}


def is_native(filter: Mapping[str, Any]) -> bool:
    """True for a filter in the notation of rag_search."""
    return "conditions" in filter or ("key" in filter and "operator" in filter)


def from_mapping(filter: Mapping[str, Any] | None) -> Condition | None:
    """Reads `{"year": {"$gt": 2020}, "owner": "ann"}`, the notation of LangChain's stores and of
    others. A filter of rag_search stays as it is.

    Raises ValueError for an operator that there is not.
    """
    if not filter:
        return None
    if is_native(filter):
        return dict(filter)
    conditions = []
    for key, value in filter.items():
        if key in _GROUPS:
            parts = value if isinstance(value, Sequence) else [value]
            if not parts:
                raise ValueError(f"filter: {key} has no conditions")
            inner = [from_mapping(part) or group("not", [nothing()]) for part in parts]
            conditions.append(group(_GROUPS[key], inner))
        elif key.startswith("$"):
            raise ValueError(f"filter: there is no operator {key}; groups: {', '.join(_GROUPS)}")
        elif isinstance(value, Mapping) and any(str(name).startswith("$") for name in value):
            conditions.extend(_of_key(key, operator, given) for operator, given in value.items())
        else:
            conditions.append(_of_key(key, "$eq", value))
    return conditions[0] if len(conditions) == 1 else group("and", conditions)


def _of_key(key: str, operator: str, value: Any) -> Condition:
    if operator == "$exists":
        return group("not", [missing(key)]) if value else missing(key)
    if operator == "$between":
        low, high = value
        return group("and", [condition(key, "gte", low), condition(key, "lte", high)])
    if operator in ("$eq", "$ne") and value is None:
        return missing(key) if operator == "$eq" else group("not", [missing(key)])
    if operator not in _OPERATORS:
        known = ", ".join([*_OPERATORS, "$between", "$exists"])
        raise ValueError(f"filter: there is no operator {operator}; operators: {known}")
    if operator in ("$in", "$nin"):
        value = list(value)
    return condition(key, _OPERATORS[operator], value)
