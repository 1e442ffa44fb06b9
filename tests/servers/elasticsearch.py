"""A contract server of Elasticsearch's REST interface, from
https://www.elastic.co/docs/api/doc/elasticsearch (version 8): what the extension uses of it, and
strict. It is no Elasticsearch: see vectors.py."""

import json
import sys

from vectors import Refused, fields, nearest, serve, vector

SIMILARITIES = {"cosine": "cosine", "l2_norm": "l2", "max_inner_product": "product"}
indexes = {}


def refusal(status, words):
    return {"error": {"type": "exception", "reason": words}, "status": status}


def found(name):
    if name not in indexes:
        raise Refused(404, f"no such index [{name}]")
    return indexes[name]


def is_keyword(index, name):
    if index["properties"].get(name, {}).get("type") != "keyword":
        raise Refused(400, f"[{name}] is no keyword")


def passes(index, query, source):
    if not isinstance(query, dict) or len(query) != 1:
        raise Refused(400, "query malformed")
    kind, body = next(iter(query.items()))
    if kind in ("term", "terms"):
        if len(body) != 1:
            raise Refused(400, f"[{kind}] query doesn't support multiple fields")
        name, wanted = next(iter(body.items()))
        is_keyword(index, name)
        if isinstance(wanted, list) != (kind == "terms"):
            raise Refused(400, f"[{kind}] value")
        values = source.get(name, [])
        values = values if isinstance(values, list) else [values]
        return any(value in values for value in (wanted if kind == "terms" else [wanted]))
    if kind == "bool":
        fields(body, [], ["filter", "must", "should", "must_not", "minimum_should_match"])
        should = body.get("should", [])
        hits = sum(passes(index, one, source) for one in should)
        least = body.get("minimum_should_match", 0 if body.get("filter") else min(1, len(should)))
        return (
            all(passes(index, one, source) for one in body.get("filter", []) + body.get("must", []))
            and hits >= least
            and not any(passes(index, one, source) for one in body.get("must_not", []))
        )
    raise Refused(400, f"unknown query [{kind}]")


def selected(index, query):
    return [(key, source) for key, source in index["sources"].items()
            if passes(index, query, source)]


def check_source(index, source):
    properties = index["properties"]
    unknown = set(source) - set(properties)
    if unknown:
        raise Refused(400, f"mapping set to strict, dynamic introduction of {sorted(unknown)}")
    for name, value in source.items():
        kind = properties[name]["type"]
        if kind == "dense_vector":
            vector(value, properties[name]["dims"])
            source[name] = [float(x) for x in value]
            if properties[name]["similarity"] == "cosine" and not any(value):
                raise Refused(400, "The [cosine] similarity does not support zero magnitude")
        elif not all(isinstance(x, str) and len(x.encode()) <= 32766
                     for x in (value if isinstance(value, list) else [value])):
            raise Refused(400, f"[{name}] immense term or no string")


def create(name, body):
    if name in indexes:
        raise Refused(400, f"index [{name}] already exists")
    if name != name.lower() or any(c in name for c in '\\/*?"<>| ,#:') or name[0] in "-_+":
        raise Refused(400, f"Invalid index name [{name}]")
    fields(body, ["mappings"], ["settings"])
    mappings = fields(body["mappings"], ["dynamic", "properties"], what="mappings")
    for field, mapping in mappings["properties"].items():
        if mapping.get("type") == "keyword":
            fields(mapping, ["type"], what=field)
        elif mapping.get("type") == "dense_vector":
            fields(mapping, ["type", "dims", "index", "similarity"], ["index_options"], what=field)
            options = mapping.get("index_options", {"type": "hnsw"})
            fields(options, ["type"], ["m", "ef_construction"], what="index_options")
            if options["type"] not in ("hnsw", "int8_hnsw", "bbq_hnsw"):
                raise Refused(400, "index_options")
            if mapping["similarity"] not in SIMILARITIES or not 1 <= mapping["dims"] <= 4096:
                raise Refused(400, "dense_vector")
        else:
            raise Refused(400, f"No handler for type [{mapping.get('type')}]")
    settings = body.get("settings", {"index": {}})
    fields(settings, ["index"], what="settings")
    fields(settings["index"], [], ["number_of_shards", "number_of_replicas"], what="settings")
    properties = mappings["properties"]
    indexes[name] = {
        "settings": settings,
        "mappings": mappings,
        "properties": properties,
        "sources": {},
    }


def bulk(name, body):
    index, items, errors = found(name), [], False
    lines = body.decode().split("\n")
    if lines.pop() != "":
        raise Refused(400, "The bulk request must be terminated by a newline [\\n]")
    for action, source in zip(lines[::2], lines[1::2], strict=True):
        action, source = json.loads(action), json.loads(source)
        key = fields(fields(action, ["index"])["index"], ["_id"])["_id"]
        item = {"_index": name, "_id": key, "status": 201}
        try:
            check_source(index, source)
            index["sources"][key] = source
        except Refused as error:
            errors = True
            item |= refusal(error.status, str(error))
        items.append({"index": item})
    return {"took": 1, "errors": errors, "items": items}


def search(name, body):
    index = found(name)
    fields(body, ["knn"], ["size", "_source", "query"])
    knn = fields(
        body["knn"],
        ["field", "query_vector", "k", "num_candidates"],
        ["filter", "similarity"],
        what="knn",
    )
    mapping = index["properties"].get(knn["field"], {})
    if mapping.get("type") != "dense_vector":
        raise Refused(400, f"[knn] [{knn['field']}] is no dense_vector")
    size = body.get("size", 10)
    if not 1 <= knn["k"] <= knn["num_candidates"] <= 10000 or not 0 <= size <= 10000:
        raise Refused(400, "[num_candidates] cannot be less than [k], or exceed [10000]")
    wanted = vector(knn["query_vector"], mapping["dims"])
    conditions = knn.get("filter", [])
    conditions = conditions if isinstance(conditions, list) else [conditions]
    points = [
        (key, {"vector": source[knn["field"]]})
        for key, source in selected(index, {"bool": {"filter": conditions}})
    ]
    metric = SIMILARITIES[mapping["similarity"]]
    hits = nearest(metric, wanted, points, min(knn["k"], body.get("size", 10)))
    kept = body.get("_source", True)
    return {"took": 1, "timed_out": False, "hits": {"hits": [
        {
            "_index": name,
            "_id": key,
            "_score": score,
            "_source": {
                field: value
                for field, value in index["sources"][key].items()
                if kept is True or field in kept
            },
        }
        for score, key in hits
    ]}}


def answer(method, path, query, body, kind):
    is_bulk = path[1:] == ["_bulk"]
    if body and kind != ("application/x-ndjson" if is_bulk else "application/json"):
        raise Refused(415, f"Content-Type header [{kind}] is not supported")
    if set(query) - {"refresh", "conflicts"}:
        raise Refused(400, f"contains unrecognized parameter: {sorted(query)}")
    if not is_bulk:
        body = json.loads(body) if body else None
    match method, path:
        case "GET", []:
            return 200, {"version": {"number": "8.17.0"}, "tagline": "contract server"}
        case "PUT", [name]:
            create(name, body)
            return 200, {"acknowledged": True, "index": name}
        case "DELETE", [name]:
            found(name)
            del indexes[name]
            return 200, {"acknowledged": True}
        case "GET", [name, "_settings"]:
            return 200, {name: {"settings": found(name)["settings"]}}
        case "GET", [name, "_mapping"]:
            return 200, {name: {"mappings": found(name)["mappings"]}}
        case "POST", [name, "_bulk"]:
            return 200, bulk(name, body)
        case "POST", [name, "_delete_by_query"]:
            index = found(name)
            fields(body, ["query"])
            gone = selected(index, body["query"])
            for key, _ in gone:
                del index["sources"][key]
            return 200, {"deleted": len(gone), "version_conflicts": 0, "failures": []}
        case "POST", [name, "_count"]:
            fields(body, ["query"])
            return 200, {"count": len(selected(found(name), body["query"]))}
        case "POST", [name, "_search"]:
            return 200, search(name, body)
    raise Refused(405, f"Incorrect HTTP method or path {method} /{'/'.join(path)}")


serve(answer, refusal, "authorization", sys.argv[1] if len(sys.argv) > 1 else None)
