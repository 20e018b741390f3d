"""A server of OpenAI's protocol in a thread that misbehaves on command."""

import contextlib
import http.server
import json
import re
import threading
import time
from collections import deque

KEY = "sk-secret-of-the-test"


class RudeServer:
    """Answers "echo of <last words>"; `script` holds what to do instead, one entry per request.

    Entries: an HTTP status, "garbage", "no json fields", "empty", "slow", "hang up", "repeat key".
    """

    def __init__(self):
        self.script: deque = deque()
        self.bodies: list[dict] = []
        self.keys: set = set()
        self.in_flight = self.most_in_flight = 0
        self.echoes = self.lists_tokens = True
        self.top = [(" 3", -0.5), ("1", -1.5), ("x", -3)]
        self.lock = threading.Lock()

    def reply(self, path: str, body: dict) -> dict:
        if path.endswith("/models"):
            return {"data": [{"id": "parrot"}]}
        if path.endswith("/chat/completions"):
            if body.get("logprobs"):
                assert self.lists_tokens
                top = [{"token": t, "logprob": p} for t, p in self.top]
                return {"choices": [{"logprobs": {"content": [{"top_logprobs": top}]}}]}
            content = body["messages"][-1]["content"]
            text = content if isinstance(content, str) else content[0]["text"]
            return self.completed({"message": {"content": f"echo of {text}"}})
        if body.get("echo"):
            assert self.echoes
            tokens = [*re.findall(r"\s*\S+|\s+$", body["prompt"]), "!"]
            starts = [sum(map(len, tokens[:i])) for i in range(len(tokens))]
            values = [None, *(-float(len(token)) for token in tokens[1:])]
            logprobs = {"tokens": tokens, "token_logprobs": values, "text_offset": starts}
            return {"choices": [{"text": body["prompt"] + "!", "logprobs": logprobs}]}
        return self.completed({"text": f"echo of {body['prompt']}"})

    def completed(self, choice: dict) -> dict:
        return {"choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}


class _Handler(http.server.BaseHTTPRequestHandler):
    rude: RudeServer

    def do_GET(self):
        self.send(200, json.dumps(self.rude.reply(self.path, {})))

    def do_POST(self):
        rude = self.rude
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with rude.lock:
            rude.bodies.append(body)
            rude.keys.add(self.headers.get("Authorization"))
            rude.in_flight += 1
            rude.most_in_flight = max(rude.most_in_flight, rude.in_flight)
            act = rude.script.popleft() if rude.script else None
        try:
            if act is None:
                self.behave(body)
            else:
                self.misbehave(act)
        finally:
            with rude.lock:
                rude.in_flight -= 1

    def behave(self, body):
        try:
            self.send(200, json.dumps(self.rude.reply(self.path, body)))
        except AssertionError:
            self.send(400, json.dumps({"error": "not offered"}))

    def misbehave(self, act):
        key = self.headers["Authorization"]
        empty = json.dumps(self.rude.completed({"message": {"content": ""}}))
        told = {
            "garbage": (200, "<html>bad gateway</html>"),
            "no json fields": (200, "{}"),
            "empty": (200, empty),
            "repeat key": (400, json.dumps({"error": key})),
        }
        if isinstance(act, int):
            self.send(act, json.dumps({"error": {"message": f"told {act}"}}), retry="0")
        elif act in told:
            self.send(*told[act])
        elif act == "slow":
            time.sleep(1.0)
        self.close_connection = True

    def send(self, status, text, retry=None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        if retry is not None:
            self.send_header("Retry-After", retry)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving():
    """A `RudeServer` and its address, while the context lasts."""
    rude = RudeServer()
    handler = type("Handler", (_Handler,), {"rude": rude})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield rude, f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
