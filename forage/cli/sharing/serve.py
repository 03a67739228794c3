"""`forage serve`: answer requests for actions over HTTP."""

from __future__ import annotations

import sys
from typing import Any

from forage.cli.arguments import checkpoint_of, display, nothing_left, say
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage serve RUN | policy.npz | policy.onnx [OPTIONS]

Answers requests for actions, JSON over HTTP, on this machine alone unless --host says otherwise. An exported policy.npz
or policy.onnx (extra `onnx`), or a directory with one and its manifest, is served without JAX; of a run it serves the
policy that forage export would write. GET / shows an
example, and curl -d '{"observation": [0, 0, 0, 0]}' http://127.0.0.1:8000/act asks for an action.

  --port N               the port; by default 8000, and 0 takes a free one
  --host ADDRESS         the address to listen at; by default 127.0.0.1, which other machines cannot reach. 0.0.0.0 is
                         all of this machine's, without a password or encryption: put a proxy before it
  --max-batch N          the most observations in a request; by default 1024
  --max-bytes N          the most bytes in a request; by default 1048576
  --max-connections N    the most connections open at once; by default 64
  --seed N               the seed of the policy; by default the best
  --checkpoint best|N    a kept policy, of the best evaluation or of step N; by default the newest
  --actions greedy | sampled   the kind of actions; by default as in the run's evaluation. A server acts greedily
  --trust                use the maker's code and addresses named in the run; they are shown and remembered
  --quiet | --json       show nothing; show the address as one JSON object

Examples
  forage serve runs/NAME
  forage serve policy.npz --port 9000
"""

WHOLE = {"port": (0, 65535), "max_batch": (1, 1 << 20), "max_bytes": (64, 1 << 30), "max_connections": (1, 4096)}
"""Options that are whole numbers, with the least and the most that each may be."""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage serve`."""
    if len(positional) != 1:
        raise ForageError("forage serve takes a run's directory or an exported policy: forage serve runs/NAME.")
    known: dict[str, Any] = {"seed": int, "actions": str, "host": str} | dict.fromkeys(WHOLE, int)
    values = {name: options.parse(name, words.pop(name), kind) for name, kind in known.items() if name in words}
    for name, (least, most) in WHOLE.items():
        if not least <= values.get(name, least) <= most:
            shown = options.hyphens(name)
            raise ForageError(f"--{shown} is from {least:,} to {most:,}, not {values[name]:,}.")
    checkpoint, kind = checkpoint_of(words), display(words)
    nothing_left(words, "serve", [*known, "checkpoint"])
    from forage.studies.serve import make_server, open_policy, serve
    from forage.studies.serving.server import PolicyServer
    from forage.studies.serving.service import Limits

    usual = Limits()
    limits = usual._replace(
        body=values.get("max_bytes", usual.body),
        batch=values.get("max_batch", usual.batch),
        connections=values.get("max_connections", usual.connections),
    )
    policy = open_policy(positional[0], values.get("seed"), checkpoint, values.get("actions"))
    server = make_server(policy, values.get("host", "127.0.0.1"), values.get("port", 8000), limits)

    def ready(server: PolicyServer) -> None:
        if kind == "json":
            say({"url": server.url, "agent": policy.agent, "environment": policy.environment})
        elif kind != "quiet":
            print(f"Serves {policy.agent} on {policy.environment} at {server.url}; Ctrl-C stops.", flush=True)

    answered = serve(server, ready)
    if kind not in ("json", "quiet"):
        print(f"Stopped after {answered:,} answer{'s' * (answered != 1)}.", file=sys.stderr)
