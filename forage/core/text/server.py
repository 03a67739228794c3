"""Ask an OpenAI-compatible server over HTTP: with a limit on time, size and attempts, and without a key in any file."""

from __future__ import annotations

import http.client
import json
import os
import queue
import threading
import time
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any

from forage.core.errors import ForageError
from forage.core.plain import dumps

LARGEST = 2**24  # bytes of a body that are read; an answer of ten thousand tokens takes two million
SAID = 200  # characters of a server's own words in a sentence of ours
PAUSE = 0.5  # seconds before an attempt is repeated; twice as long each time
LONGEST_PAUSE = 30.0


class LostAnswer(Exception):
    """An answer did not come, or cannot be learned from. Its text is the end of a sentence about the server."""


class ServerAway(LostAnswer):
    """No answer came, for a reason that may pass."""


class Server:
    """An OpenAI-compatible server at `url`, such as http://localhost:8000/v1."""

    def __init__(self, url: str, model: str, variable: str, timeout: float, retries: int):
        """`variable`: the environment variable that holds the key, where there is one."""
        self.url, self.timeout, self.retries = check_url(url.rstrip("/")), timeout, retries
        self.parts = urllib.parse.urlsplit(self.url)
        self.model, self.variable = model, variable
        self.owner: int | None = None  # the seed whose policy it has been given
        self.told = {""}  # for which kinds of reasons a lost answer has been told of already

    def key(self) -> str:
        """Return the key, empty if the environment has none. Raise `ForageError` for a key that cannot be sent."""
        key = os.environ.get(self.variable, "").strip()
        if not (key.isascii() and key.isprintable()):
            raise ForageError(f"The key in the environment variable {self.variable} has characters that no key has.")
        return key

    def hello(self) -> None:
        """See that the server is there, and which model it has. Raise `ForageError` if it is away."""
        try:
            listed = self.ask("GET", f"{self.parts.path}/models")
        except LostAnswer as error:
            raise ForageError(
                f"The endpoint {self.url} {error}; start the server, or name another with --behaviour.url."
            ) from None
        found = listed.get("data") if isinstance(listed, dict) else None
        found = found if isinstance(found, list) else []
        names = [one["id"] for one in found if isinstance(one, dict) and isinstance(one.get("id"), str)]
        self.model = self.model or (names[0] if names else "")
        if not self.model or (names and self.model not in names):
            there = f"it has {', '.join(names[:5])}" if names else "it names none itself"
            raise ForageError(
                f"The endpoint {self.url} has no model {self.model!r}; name one with --behaviour.model: {there}."
            )

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON of an answer, asked for up to `retries` times more where the reason may pass."""
        for number in range(self.retries):
            try:
                return self.request_once(method, path, body)
            except ServerAway:
                time.sleep(min(PAUSE * 2**number, LONGEST_PAUSE))
        return self.request_once(method, path, body)

    def request_once(self, method: str, path: str, body: Any) -> Any:
        """Return the JSON that one request is answered with, in `timeout` seconds at most."""
        until = time.monotonic() + self.timeout
        kind = http.client.HTTPSConnection if self.parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(self.parts.hostname or "", self.parts.port, timeout=self.timeout)
        key = self.key()
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        data = None if body is None else dumps(body, allow_nan=False).encode()
        pieces: list[bytes] = []
        try:
            connection.request(method, path, data, headers)
            socket: Any = connection.sock  # which `getresponse` may let go of
            with connection.getresponse() as response:  # which may outlive its connection
                while piece := response.read1(2**16):
                    pieces.append(piece)
                    if sum(map(len, pieces)) > LARGEST:
                        raise LostAnswer(f"sent more than {LARGEST // 2**20} MiB in answer to one request")
                    if response.isclosed():  # all is there, and the socket may be gone
                        break
                    if (left := until - time.monotonic()) <= 0:
                        raise TimeoutError
                    socket.settimeout(left)
        except TimeoutError:
            raise ServerAway(f"gave no answer within {self.timeout:g} seconds") from None
        except (OSError, http.client.HTTPException) as error:
            words = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ServerAway(f"does not answer ({words})") from None
        finally:
            connection.close()
        return self.parse_reply(response.status, b"".join(pieces), key)

    def parse_reply(self, status: int, body: bytes, key: str) -> Any:
        """Return the JSON of a body. Raise for a status that reports an error."""
        if 200 <= status < 300:
            try:
                return json.loads(body)
            except ValueError:
                raise LostAnswer("answered with what is no JSON") from None
        words = body.decode("utf-8", "replace")
        words = " ".join((words.replace(key, "...") if key else words).split())[:SAID]
        said = f"answered with status {status}" + (f" ({words})" if words else "")
        if status in (401, 403):
            raise ForageError(
                f"The endpoint {self.url} {said}; put its key into the environment variable {self.variable}."
            )
        if status in (404, 405):
            raise ForageError(f"The endpoint {self.url} {said}; give its url up to /v1, and a model that it has.")
        raise (ServerAway if status in (408, 409, 425, 429) or status >= 500 else LostAnswer)(said)


def check_url(url: str) -> str:
    """Return an address. Raise `ForageError` for an invalid address, and for an address that holds a secret."""
    none = ForageError("The url of an endpoint is one like http://localhost:8000/v1, and what was given is none.")
    try:
        parts = urllib.parse.urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise none from None
    if not good or not url.isascii() or not url.isprintable() or " " in url:
        raise none
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ForageError(
            "The url of an endpoint is kept with the run, and so has no name, password or query; put the key into the "
            "environment variable that --behaviour.key-variable names."
        )
    return url


def map_threads(function: Callable[[Any], Any], items: Sequence[Any], threads: int) -> list[Any]:
    """Return the result of a function for each item, in their order, or the `LostAnswer` that it raised.

    So many threads share the items. They end with the process: who presses Ctrl-C waits for no server. After any other
    error no further item is begun, and it is raised.
    """
    results: list[Any] = [None] * len(items)
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(len(items)):
        waiting.put(number)
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            try:
                number = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                results[number] = function(items[number])
            except LostAnswer as lost:
                results[number] = lost
            except Exception as error:
                results[number] = error
                over.set()

    workers = [threading.Thread(target=work, daemon=True) for _ in range(min(threads, len(items)))]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join()
    finally:
        over.set()
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, LostAnswer):
            raise result
    return results
