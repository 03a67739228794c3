"""A small OpenAI-compatible server that answers from one of our transformers, and can misbehave."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jax
import numpy as np

from forage.core.text import named
from forage.nn.language.architecture import Architecture
from forage.nn.language.generate import generate, pad_left
from forage.nn.transformer import Transformer
from forage.ops.sampling import Sampling

TOKENIZER = named.tokenizer("forage")
LONGEST, PROMPT = 16, 64  # tokens of an answer at most, and to which prompts are padded, so that one program does


def model(seed: int = 0) -> Transformer:
    small = Architecture(vocabulary=512, width=16, layers=1, heads=2, inner=16, length=256)
    return Transformer(jax.random.key(seed), small)


class ServedThreadingHTTPServer(ThreadingHTTPServer):
    """The server: its requests and answers, and its behaviour (`mood`, of a request's number)."""

    daemon_threads = True

    def __init__(self, network: Transformer):
        super().__init__(("127.0.0.1", 0), Handler)
        self.network, self.mood, self.key, self.reloads = network, lambda number: "", "", True
        self.asked: list = []
        self.said: dict = {}  # the answer to each prompt and seed
        self.busy = threading.Lock()
        self.write = jax.jit(
            lambda network, tokens, mask, key: generate(
                network, tokens, key, LONGEST, Sampling(), mask, (TOKENIZER.end,), np.arange(512) < TOKENIZER.vocabulary
            )
        )

    def handle_error(self, request, client_address):
        """Ignore clients that hung up."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def completion(self, body: dict) -> dict:
        prompt = body["prompt"] if isinstance(body["prompt"], list) else TOKENIZER.encode(body["prompt"])
        with self.busy:
            tokens, mask = pad_left([prompt], PROMPT)
            written = self.write(self.network, tokens, mask, jax.random.key(body["seed"]))
        there = np.asarray(written.mask[0])
        tokens = np.asarray(written.tokens[0])[there].tolist()
        scores = np.asarray(written.log_probability[0])[there].tolist()
        self.said[tuple(prompt), body["seed"]] = tokens, scores
        words = [f"token_id:{token}" for token in tokens]
        choice = {
            "text": TOKENIZER.decode([token for token in tokens if token != TOKENIZER.end]),
            "logprobs": {"tokens": words, "token_logprobs": scores},
            "finish_reason": "stop" if tokens[-1] == TOKENIZER.end else "length",
        }
        if body.get("return_token_ids"):
            choice |= {"token_ids": tokens, "prompt_token_ids": prompt}
        return {"choices": [choice]}


class Handler(BaseHTTPRequestHandler):
    server: ServedThreadingHTTPServer

    def log_message(self, *words):
        pass

    def send(self, status: int, body: bytes):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send(200, json.dumps({"data": [{"id": "small"}]}).encode())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/update_weights_from_disk":
            if self.server.reloads:
                self.server.network = Transformer.load(body["model_path"])
            self.send(200, json.dumps({"success": self.server.reloads, "message": "no such directory"}).encode())
            return
        number = len(self.server.asked)
        self.server.asked.append(body)
        mood = self.server.mood(number)
        if self.server.key and self.headers["Authorization"] != f"Bearer {self.server.key}":
            self.send(401, f"no such key: {self.headers['Authorization']}".encode())
        elif isinstance(mood, int):
            self.send(mood, b"something is\nwrong")
        elif mood == "no json":
            self.send(200, b"<html>")
        elif mood == "flood":
            self.flood()
        else:
            if mood == "slow":
                time.sleep(0.5)
            said = self.server.completion(body)
            if mood == "no log-probabilities":
                del said["choices"][0]["logprobs"]
            self.send(200, json.dumps(said).encode())

    def flood(self):
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(b" " * 2**20)
        except OSError:
            pass


@contextmanager
def serving(network: Transformer | None = None):
    """A server that runs for as long as the block does."""
    served = ServedThreadingHTTPServer(model() if network is None else network)
    thread = threading.Thread(target=served.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        served.shutdown()
        served.server_close()
        thread.join()
