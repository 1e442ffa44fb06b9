"""What the contract servers of Qdrant and Elasticsearch have in common: HTTP, strict requests,
exact searches, and faults that a test asks for.

Not every machine that runs the tests has the real servers. These ones were written from the public
descriptions of the interfaces. An unknown path, field or type is an error, so that a request that
a real server would refuse is refused here. Searches compute every distance.

A test asks for faults at /_test: POST {"status": 503, "retry_after": 1, "times": 2} has the next
requests fail, {"times": 0} ends all faults, and GET returns the numbers of requests by method and
path.
"""

import json
import math
import sys
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from urllib.parse import parse_qsl, unquote, urlsplit


class Refused(Exception):
    def __init__(self, status, words):
        super().__init__(words)
        self.status = status


def fields(value, required, optional=(), what="request"):
    """Checks the fields of an object."""
    if not isinstance(value, dict):
        raise Refused(400, f"{what} is not an object")
    unknown = set(value) - set(required) - set(optional)
    missing = set(required) - set(value)
    if unknown or missing:
        raise Refused(400, f"{what}: unknown fields {sorted(unknown)}, missing {sorted(missing)}")
    return value


def vector(value, dimensions):
    if not isinstance(value, list) or not all(
        isinstance(x, (int, float)) and math.isfinite(x) for x in value
    ):
        raise Refused(400, "not a vector")
    if len(value) != dimensions:
        raise Refused(400, f"vector dimension error: expected {dimensions}, got {len(value)}")
    return value


def dot(a, b):
    return sum(map(float.__mul__, a, b))


def similarity(metric, a, b):
    """Returns a number that is higher for nearer vectors."""
    if metric == "l2":
        return -math.dist(a, b)
    product = dot(a, b)
    if metric == "product":
        return product
    length = math.sqrt(dot(a, a) * dot(b, b))
    return product / length if length else 0.0


def nearest(metric, query, points, limit):
    query = [float(x) for x in query]
    scored = [(similarity(metric, query, p["vector"]), key) for key, p in points]
    scored.sort(key=lambda pair: -pair[0])
    return scored[:limit]


def serve(answer, refusal, header, secret):
    """Serves requests on a free port, which is printed. `answer` is called with the method, the
    parts of the path, the query and the body. `refusal` makes the body of an error. A request must
    have `secret` in a header, unless there is none."""
    lock, counts, faults = Lock(), Counter(), []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def reply(self, status, body, headers=()):
            data = json.dumps(body).encode()
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def handle_request(self):
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = [unquote(part) for part in url.path.split("/") if part]
            with lock:
                if parts == ["_test"]:
                    if self.command == "POST":
                        fault = json.loads(body)
                        if fault["times"]:
                            faults.append(fault)
                        else:
                            faults.clear()
                    return self.reply(200, dict(counts))
                counts[f"{self.command} {'/'.join(parts)}"] += 1
                if secret and self.headers.get(header) != secret:
                    return self.reply(401, refusal(401, f"wrong credentials in {header}"))
                if faults:
                    fault = faults[0]
                    fault["times"] -= 1
                    if not fault["times"]:
                        faults.pop(0)
                    wait = fault.get("retry_after")
                    headers = [("Retry-After", str(wait))] if wait is not None else []
                    return self.reply(fault["status"], refusal(fault["status"], "busy"), headers)
                try:
                    kind = self.headers.get("Content-Type", "")
                    query = dict(parse_qsl(url.query))
                    status, result = answer(self.command, parts, query, body, kind)
                except Refused as error:
                    status, result = error.status, refusal(error.status, str(error))
            self.reply(status, result)

        do_GET = do_POST = do_PUT = do_DELETE = handle_request

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    # the test ends with standard input
    import threading

    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
