"""The HTTP server of a policy, of Python's standard library: a thread for each connection, all of it bounded."""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from forage.core.errors import ForageError, words_of
from forage.studies.serving.requests import Refusal
from forage.studies.serving.service import PolicyService

GET = "/", "/health", "/version", "/manifest"
DRAINED = 16
"""A body of up to 16 times the limit is read and dropped, so that its sender gets the refusal."""


class PolicyServer(ThreadingHTTPServer):
    """A server that answers by a `PolicyService` until `stop` is called; `port` 0 takes a free one."""

    daemon_threads = False
    block_on_close = True
    request_queue_size = 128
    allow_reuse_address = sys.platform != "win32"

    def __init__(self, service: PolicyService, host: str = "127.0.0.1", port: int = 8000):
        """Raise `ForageError` if the address cannot be used."""
        self.service, self.answered, self.stopping = service, 0, threading.Event()
        self.slots = threading.BoundedSemaphore(service.limits.connections)
        self.open: set[socket.socket] = set()
        self.lock = threading.Lock()
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), Handler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            raise ForageError(
                f"Cannot listen at {host}, port {port}: {why}; another --port works, or 0 for any that is free."
            ) from error

    @property
    def url(self) -> str:
        """Return the address of the server."""
        host, port = self.server_address[:2]
        return f"http://[{host}]:{port}" if ":" in str(host) else f"http://{host}:{port}"

    def server_bind(self) -> None:
        """Bind the address, without the look-up of the machine's name that `HTTPServer` makes."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a thread for a connection, or refuse one too many."""
        if not self.slots.acquire(timeout=1.0):
            with contextlib.suppress(OSError):
                request.settimeout(1.0)
                request.sendall(busy(self.service.limits.connections))
            self.shutdown_request(request)
            return
        with self.lock:
            self.open.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self.lock:
                self.open.discard(request)
            self.slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print a fault that ended a connection on standard error; a client that went away is none."""
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            print(f"A connection ended with {words_of(error)}.", file=sys.stderr, flush=True)

    def stop(self) -> None:
        """Take no more connections, finish open requests, and close idle connections."""
        self.stopping.set()
        self.shutdown()
        with self.lock:
            for connection in self.open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RD)  # an idle connection ends; an answer is still sent
        self.server_close()


def busy(connections: int) -> bytes:
    """Return the whole answer to a connection too many."""
    body = json.dumps({"error": f"All {connections} connections are in use; close some, or try again later."}).encode()
    head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


def too_large(most: int, length: int) -> str:
    """Say that a body has more bytes than the server takes."""
    return f"A body has at most {most:,} bytes, not {length:,}; send fewer observations, or start with --max-bytes."


class Handler(BaseHTTPRequestHandler):
    """One connection: requests one after the other, each answered in JSON."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "forage", ""
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave in one packet
    server: PolicyServer

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self.server.service.limits.seconds)

    def do_GET(self) -> None:
        path, service = self.path.partition("?")[0], self.server.service
        answers: dict[str, Callable[[], dict[str, Any]]] = {
            "/": service.index,
            "/health": lambda: {"status": "ok"},
            "/version": service.about,
            "/manifest": lambda: service.policy.manifest,
        }
        if path in answers:
            self.send_json(200, answers[path]())
        elif path == "/act":
            self.send_json(405, {"error": "An action is asked for by POST /act, with the observation in the body."})
        else:
            self.send_json(404, {"error": f"There is no {path[:100]}; there are POST /act and GET {', '.join(GET)}."})

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        try:
            body = self.read_body()
            if path != "/act":
                there = f"{path} is asked for by GET" if path in GET else f"there is no {path[:100]}"
                raise Refusal(405 if path in GET else 404, f"Actions are asked for by POST /act; {there}.")
            answer = self.server.service.act(body)
        except Refusal as refusal:
            self.send_json(refusal.status, {"error": refusal.sentence})
        except OSError:
            raise
        except Exception as error:  # a fault of the policy's program; the server goes on
            print(f"A request failed with {words_of(error)}.", file=sys.stderr, flush=True)
            self.send_json(500, {"error": "The policy failed at this request; the server's output says why."})
        else:
            self.send_json(200, answer)

    def read_body(self) -> bytes:
        """Return the body of a request. Raise `Refusal` if it is too large, too slow or of unknown length."""
        limits = self.server.service.limits
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self.close_connection = True
            raise Refusal(411, "A request says in Content-Length how many bytes its body has; chunks are not taken.")
        end = time.monotonic() + limits.seconds
        if int(length) > limits.body:
            self.close_connection = True
            if int(length) <= DRAINED * limits.body:
                self.receive(int(length), end, keep=False)
            raise Refusal(
                413, f"A body has at most {limits.body:,} bytes, not {int(length):,}; send fewer observations."
            )
        return self.receive(int(length), end)

    def receive(self, length: int, end: float, keep: bool = True) -> bytes:
        """Return this many bytes of the body. Raise `Refusal` if they have not come by the time `end`."""
        parts: list[bytes] = []
        while length:
            try:
                part = self.rfile.read1(min(length, 1 << 16))
            except TimeoutError:
                part = b""
            if not part or time.monotonic() > end:
                self.close_connection = True
                raise Refusal(408, "The body is shorter than its Content-Length, or came too slowly.")
            length -= len(part)
            if keep:
                parts.append(part)
        return b"".join(parts)

    def handle_expect_100(self) -> bool:
        """Refuse a body that is too large before it is sent, where a client asks."""
        length = self.headers.get("Content-Length", "")
        if length.isdigit() and int(length) > self.server.service.limits.body:
            self.close_connection = True
            self.send_json(413, {"error": too_large(self.server.service.limits.body, int(length))})
            return False
        return super().handle_expect_100()

    def send_json(self, status: int, answer: dict[str, Any]) -> None:
        """Send an answer, and close the connection after it if the server is stopping."""
        body = json.dumps(answer).encode()
        if self.server.stopping.is_set():
            self.close_connection = True
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        with self.server.lock:
            self.server.answered += 1

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer malformed requests and other methods with a sentence."""
        self.close_connection = True
        said = message or self.responses.get(code, ("an error",))[0]
        self.send_json(code, {"error": f"{said}; there are POST /act and GET {', '.join(GET)}."})

    def log_message(self, format: str, *arguments: Any) -> None:
        """Write no line for each request."""
