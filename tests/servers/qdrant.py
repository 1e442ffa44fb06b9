"""A contract server of Qdrant's REST interface, from https://api.qdrant.tech (version 1.14): what
the extension uses of it, and strict. It is no Qdrant: see vectors.py."""

import json
import sys
import uuid

from vectors import Refused, fields, nearest, serve, vector

DISTANCES = {"Cosine": "cosine", "Euclid": "l2", "Dot": "product"}
QUANTIZATIONS = [{"binary": {}}, {"scalar": {"type": "int8"}}]
collections = {}


def refusal(status, words):
    return {"status": {"error": words}, "time": 0.0}


def found(name):
    if name not in collections:
        raise Refused(404, f"Not found: Collection `{name}` doesn't exist!")
    return collections[name]


def passes(condition, payload):
    """Returns true if a payload passes a condition: a filter, or a match of a field."""
    if "key" in condition:
        fields(condition, ["key", "match"], what="condition")
        match = condition["match"]
        key = condition["key"]
        if not isinstance(key, str):
            raise Refused(400, "key is not a string")
        values = payload.get(key, [])
        values = values if isinstance(values, list) else [values]
        if list(match) == ["value"]:
            return match["value"] in values
        if list(match) == ["any"] and isinstance(match["any"], list):
            return any(value in values for value in match["any"])
        raise Refused(400, f"unknown match {match}")
    return passes_filter(condition, payload)


def passes_filter(condition, payload):
    fields(condition, [], ["must", "should", "must_not"], what="filter")
    parts = {name: condition.get(name) or [] for name in ("must", "should", "must_not")}
    if any(not isinstance(part, list) for part in parts.values()):
        raise Refused(400, "filter: not a list")
    return (
        all(passes(one, payload) for one in parts["must"])
        and (not parts["should"] or any(passes(one, payload) for one in parts["should"]))
        and not any(passes(one, payload) for one in parts["must_not"])
    )


def selected(collection, condition):
    return [
        (key, point)
        for key, point in collection["points"].items()
        if passes_filter(condition, point["payload"])
    ]


def ok(result):
    return 200, {"result": result, "status": "ok", "time": 0.0}


def answer(method, path, query, body, kind):
    if body and kind != "application/json":
        raise Refused(415, f"unsupported content type {kind}")
    body = json.loads(body) if body else None
    if set(query) - {"wait"} or query.get("wait", "true") != "true":
        raise Refused(400, f"unknown query {query}")
    match method, path:
        case "GET", []:
            return 200, {"title": "contract server of Qdrant", "version": "1.14.0"}
        case "GET", ["collections", name]:
            collection = found(name)
            return ok({
                "status": "green",
                "points_count": len(collection["points"]),
                "config": {"params": {"vectors": collection["vectors"]}, **collection["options"]},
            })
        case "PUT", ["collections", name]:
            known = ["hnsw_config", "shard_number", "replication_factor", "quantization_config"]
            fields(body, ["vectors"], known)
            vectors = fields(body["vectors"], ["size", "distance"], ["on_disk"], what="vectors")
            known = ["m", "ef_construct", "on_disk"]
            fields(body.get("hnsw_config", {}), [], known, what="hnsw_config")
            if body.get("quantization_config", {"binary": {}}) not in QUANTIZATIONS:
                raise Refused(400, "quantization_config")
            if name in collections:
                raise Refused(409, f"Wrong input: Collection `{name}` already exists!")
            if vectors["distance"] not in DISTANCES or not isinstance(vectors["size"], int):
                raise Refused(400, "vectors")
            if any(c in name for c in '/\\<>:"|?*') or not name:
                raise Refused(422, "collection name")
            options = {key: value for key, value in body.items() if key != "vectors"}
            collections[name] = {"vectors": vectors, "options": options, "points": {}}
            return ok(True)
        case "DELETE", ["collections", name]:
            return ok(collections.pop(name, None) is not None)
        case "PUT", ["collections", name, "index"]:
            found(name)
            fields(body, ["field_name", "field_schema"])
            if body["field_schema"] not in ("keyword", "integer", "float", "bool", "uuid"):
                raise Refused(400, "field_schema")
            return ok({"operation_id": 1, "status": "completed"})
        case "PUT", ["collections", name, "points"]:
            collection = found(name)
            fields(body, ["points"])
            new = {}
            for point in body["points"]:
                fields(point, ["id", "vector", "payload"], what="point")
                uuid.UUID(point["id"])
                size = collection["vectors"]["size"]
                numbers = [float(x) for x in vector(point["vector"], size)]
                fields(
                    point["payload"],
                    ["collection", "document", "chunk", "labels"],
                    what="payload of rag",
                )
                new[point["id"]] = {"vector": numbers, "payload": point["payload"]}
            collection["points"].update(new)
            return ok({"operation_id": 2, "status": "completed"})
        case "POST", ["collections", name, "points", "delete"]:
            collection = found(name)
            fields(body, ["filter"])
            for key, _ in selected(collection, body["filter"]):
                del collection["points"][key]
            return ok({"operation_id": 3, "status": "completed"})
        case "POST", ["collections", name, "points", "count"]:
            collection = found(name)
            fields(body, [], ["filter", "exact"])
            return ok({"count": len(selected(collection, body.get("filter", {})))})
        case "POST", ["collections", name, "points", "query"]:
            collection = found(name)
            fields(
                body,
                ["query", "limit"],
                ["filter", "params", "with_payload", "with_vector"],
            )
            fields(body.get("params", {}), [], ["hnsw_ef", "exact"], what="params")
            if not isinstance(body["limit"], int) or body["limit"] < 1:
                raise Refused(422, "limit")
            wanted = vector(body["query"], collection["vectors"]["size"])
            points = selected(collection, body.get("filter", {}))
            metric = DISTANCES[collection["vectors"]["distance"]]
            kept = body.get("with_payload", False)
            return ok({"points": [
                {
                    "id": key,
                    "version": 2,
                    "score": score,
                    "payload": {
                        name: value
                        for name, value in collection["points"][key]["payload"].items()
                        if kept is True or (kept and name in kept)
                    },
                }
                for score, key in nearest(metric, wanted, points, body["limit"])
            ]})
    raise Refused(404, f"unknown path {method} /{'/'.join(path)}")


serve(answer, refusal, "api-key", sys.argv[1] if len(sys.argv) > 1 else None)
