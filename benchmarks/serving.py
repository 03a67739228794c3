"""How many requests `forage serve` answers: a load test, with a client process of several connections.

    python benchmarks/serving.py                 an untrained PPO on CartPole-v1
    python benchmarks/serving.py policy.npz      a policy of your own
    python benchmarks/serving.py --smoke         a look at whether it works

Server and clients run on this machine and share its cores. Each connection sends one request after the other, with
random observations of the policy's shapes; latencies are measured from the first byte sent to the last received.
An agent with memory is asked in a session of its own for each connection and row.
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from forage.loop.plain import PlainPolicy

LOADS = (1, 1), (8, 1), (32, 1), (8, 64)
"""Connections, and observations of a request."""


def example(directory: Path) -> Path:
    """Export a policy that has learned nothing."""
    import jax

    from forage.config import registry
    from forage.core import prng
    from forage.environments import make, spec_of
    from forage.loop.policy import Policy

    made = make("CartPole-v1")
    part, spec = registry.build("agent", "ppo", {}), spec_of(made, "CartPole-v1")
    return Policy(part, jax.jit(lambda key: part.init(key, spec))(prng.key(0)), spec).export(directory / "policy.npz")


def body_of(index: dict[str, Any], remembers: bool, connection: int, batch: int, random: np.random.Generator) -> bytes:
    """Return a request with random numbers in the shape of the server's example."""

    def draw(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: draw(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [draw(inner) for inner in value]
        return value if isinstance(value, bool) else random.normal() if isinstance(value, float) else value

    observations = [draw(index["example"]["observation"]) for _ in range(batch)]
    request: dict[str, Any] = {"observations": observations} if batch > 1 else {"observation": observations[0]}
    if remembers:
        names = [f"{connection}-{row}" for row in range(batch)]
        request |= ({"sessions": names} if batch > 1 else {"session": names[0]}) | {"start": True}
    return json.dumps(request).encode()


def press(address: str, body: bytes, end: float, found: list[float]) -> None:
    """Send one request after the other until the time is over, and note the seconds of each."""
    connection = http.client.HTTPConnection(address, timeout=30)
    while (begun := time.perf_counter()) < end:
        connection.request("POST", "/act", body)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        found.append(time.perf_counter() - begun)


def load(url: str, remembers: bool, connections: int, batch: int, seconds: float) -> dict[str, float]:
    """Return requests a second and latencies in milliseconds."""
    address, random = urlsplit(url).netloc, np.random.default_rng(0)
    asking = http.client.HTTPConnection(address, timeout=30)
    asking.request("GET", "/")
    index = json.loads(asking.getresponse().read())
    asking.close()
    found: list[list[float]] = [[] for _ in range(connections)]
    bodies = [body_of(index, remembers, number, batch, random) for number in range(connections)]
    begun = time.perf_counter()
    threads = [
        threading.Thread(target=press, args=(address, body, begun + seconds, times))
        for body, times in zip(bodies, found, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took, all_times = time.perf_counter() - begun, 1e3 * np.concatenate(found)
    middle, late = np.percentile(all_times, [50, 99])
    return {"requests": len(all_times) / took, "observations": batch * len(all_times) / took, "50": middle, "99": late}


def main() -> None:
    """Serve a policy, press it, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", nargs="?", help="an exported policy.npz")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    parser.add_argument("--smoke", action="store_true", help="a fifth of a second of each")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(given.policy) if given.policy else example(Path(directory))
        remembers = bool(PlainPolicy(path).start)
        command = [sys.executable, "-m", "forage", "serve", str(path), "--port", "0", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                ready = json.loads(server.stdout.readline())
                print("| connections | observations each | requests/s | observations/s | median ms | 99th percentile |")
                print("|---|---|---|---|---|---|")
                for connections, batch in LOADS:
                    row = load(ready["url"], remembers, connections, batch, 0.2 if given.smoke else given.seconds)
                    print(
                        f"| {connections} | {batch} | {row['requests']:,.0f} | {row['observations']:,.0f} "
                        f"| {row['50']:.2f} | {row['99']:.2f} |",
                        flush=True,
                    )
            finally:
                server.terminate()
                assert server.wait(30) == 0


if __name__ == "__main__":
    main()
