"""A server of models on loopback, by the public descriptions of OpenAI's interface: embeddings, and
answers as server-sent events. It answers as fast as it can, in a process of its own."""

import json
import socket
import subprocess
import sys
import time
import zlib
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DIMENSIONS = 384
# what a text gets is one of these
KINDS = 64
ANSWER = "Keys are rotated monthly [1].".split()


def vectors():
    """As texts of JSON, so that the server does not spend its time on digits."""
    for kind in range(KINDS):
        values = [((kind * 7919 + i * 104729) % 2003) / 1001.5 - 1 for i in range(DIMENSIONS)]
        yield json.dumps([round(value, 7) for value in values])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    made = list(vectors())

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except ConnectionError:  # a client that has what it wanted
            pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/embeddings":
            self.embed(body["input"])
        else:
            self.answer()

    def send(self, head, body):
        """In one packet."""
        lines = ["HTTP/1.1 200 OK", *head, "", ""]
        self.wfile.write("\r\n".join(lines).encode() + body)

    def embed(self, texts):
        data = ", ".join(
            f'{{"object": "embedding", "index": {n}, '
            f'"embedding": {self.made[zlib.crc32(text.encode()) % KINDS]}}}'
            for n, text in enumerate(texts))
        tokens = sum(map(len, texts)) // 4
        usage = json.dumps({"prompt_tokens": tokens, "total_tokens": tokens})
        body = f'{{"object": "list", "data": [{data}], "usage": {usage}}}'.encode()
        self.send(["Content-Type: application/json", f"Content-Length: {len(body)}"], body)

    def answer(self):
        self.send(["Content-Type: text/event-stream", "Transfer-Encoding: chunked"], b"")
        for piece in ANSWER:
            self.event(json.dumps({"choices": [{"delta": {"content": piece + " "}}]}))
            time.sleep(0.005)
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def event(self, data):
        text = f"data: {data}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(text), text))


@contextmanager
def model_server():
    """Runs the server. Its port."""
    command = [sys.executable, "-m", "support.model_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


class BareClient:
    """Sends the same requests with nothing around them, on a connection that it keeps."""

    def __init__(self, port):
        self.connection = HTTPConnection("127.0.0.1", port)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _post(self, path, body):
        self.connection.request("POST", path, json.dumps(body).encode(),
            {"Content-Type": "application/json"})
        return self.connection.getresponse()

    def embed(self, texts):
        answer = self._post("/v1/embeddings", {"model": "m", "input": texts}).read()
        return [element["embedding"] for element in json.loads(answer)["data"]]

    def first_token(self, messages):
        """Returns the seconds to the first piece of an answer, and reads the rest."""
        started = time.perf_counter()
        answer = self._post("/v1/chat/completions",
            {"model": "m", "stream": True, "messages": messages})
        line = answer.readline()
        assert json.loads(line.removeprefix(b"data: "))["choices"][0]["delta"]["content"]
        seconds = time.perf_counter() - started
        answer.read()
        return seconds


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
