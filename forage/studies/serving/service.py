"""Answers of a served policy to requests in JSON, without HTTP: batches, and a memory for each session."""

from __future__ import annotations

import collections
import json
import threading
from typing import Any, NamedTuple

import numpy as np

from forage.core.columns import Columns
from forage.core.errors import nearest
from forage.core.plain import package_version
from forage.loop.plain import PlainPolicy
from forage.studies.serving.requests import Refusal, encode_row, json_kind, leaves_of, read_rows

ONE, MANY = ("observation", "session", "start"), ("observations", "sessions", "start")
"""The keys of a request for one observation, and for a batch."""
USAGE = 'A request is {"observation": ...} for one action, or {"observations": [...]} for several'


class Limits(NamedTuple):
    """The bounds of a server."""

    body: int = 1 << 20  # bytes of a request
    batch: int = 1024  # observations of a request
    connections: int = 64  # open at once
    seconds: float = 10.0  # for a request to arrive, and for a connection to stay idle
    sessions: int = 10_000  # episodes that are remembered, of an agent with memory


class PolicyService:
    """A policy that answers requests from several threads."""

    def __init__(self, policy: PlainPolicy, limits: Limits = Limits()):  # noqa: B008
        """`policy`: with a manifest, as `Policy.export` writes it. Raise `ValueError` without one."""
        if not policy.manifest:
            raise ValueError("This policy was exported without a manifest, by an older Forage; export it again.")
        self.policy, self.limits = policy, limits
        self.leaves, self.start = leaves_of(policy.manifest), policy.start
        self.table = Columns.from_json(policy.manifest.get("columns"))
        self.sessions: collections.OrderedDict[str, list[np.ndarray]] = collections.OrderedDict()
        self.lock = threading.Lock()

    def act(self, body: bytes) -> dict[str, Any]:
        """Return the answer to a request's body. Raise `Refusal` if it has no answer.

        A policy that learned from a table takes the columns of one row also without the key around them, and gives the
        action's columns so.
        """
        request = parse_object(body)
        if self.table is not None and not self.start and not any(key in request for key in (*ONE, *MANY)):
            observed = {column.name for column in self.table.observation}
            if observed & request.keys():
                return self.answer([request])[0]
        one = "observations" not in request
        self.check_request(request, ONE if one else MANY)
        rows = [request["observation"]] if one else request["observations"]
        if not isinstance(rows, list) or not rows:
            got = json_kind(rows) if rows else "an empty list"
            raise Refusal(400, f"observations is a list of one observation or more, not {got}.")
        if len(rows) > self.limits.batch:
            raise Refusal(
                413, f"A request has at most {self.limits.batch:,} observations, not {len(rows):,}; split it."
            )
        found = self.answer(rows, request, one)
        return {"action": found[0]} if one else {"actions": found}

    def answer(self, rows: list[Any], request: dict[str, Any] | None = None, one: bool = True) -> list[Any]:
        """Return the action of each row of observations as plain data; `request` names sessions, if there are any."""
        if self.table is not None:
            rows = [encode_row(self.table, row, number) for number, row in enumerate(rows)]
        given = read_rows(self.leaves, rows)
        if self.start:
            actions = self.act_in_sessions(given, request or {}, one)
        else:
            actions, _ = self.policy.step(given, [])
        if not all(np.isfinite(x).all() for x in actions):
            raise Refusal(400, "The policy has no finite action for such large numbers.")
        if self.table is None:
            return self.policy.rows_of_actions(actions)
        columns = self.table.decode_action(actions[0])
        return [
            dict(zip(columns, row, strict=True)) for row in zip(*(x.tolist() for x in columns.values()), strict=True)
        ]

    def check_request(self, request: dict[str, Any], known: tuple[str, ...]) -> None:
        """Raise `Refusal` for unknown and missing keys, and for sessions of a policy without memory."""
        if not self.start:
            known = known[:1]
        if unknown := next((key for key in request if key not in known), None):
            if unknown in (*ONE, *MANY) and not self.start and unknown not in ("observation", "observations"):
                raise Refusal(400, f"This policy remembers nothing from step to step, so leave {unknown} out.")
            raise Refusal(400, f"A request has no key {unknown!r}{nearest(unknown, known)}")
        if known[0] not in request:
            raise Refusal(400, f"{USAGE}; this one has neither.")

    def act_in_sessions(self, given: list[np.ndarray], request: dict[str, Any], one: bool) -> list[np.ndarray]:
        """Return actions by the memories of their sessions, and keep the memories for the next step."""
        key = "session" if one else "sessions"
        names: Any = [request.get(key)] if one else request.get(key)
        number = len(given[0])
        if not isinstance(names, list) or len(names) != number or not all(is_name(name) for name in names):
            raise Refusal(
                400,
                f"This policy remembers an episode: name each one, a text of at most 100 characters for every "
                f'observation, in "{key}", and say "start": true in its first step.',
            )
        if len(set(names)) < number:
            raise Refusal(400, "Each session takes one step in a request; two observations have the same one.")
        starts: Any = request.get("start", False)
        starts = [starts] * number if isinstance(starts, bool) else starts
        if not isinstance(starts, list) or len(starts) != number or not all(isinstance(x, bool) for x in starts):
            raise Refusal(400, '"start" is true or false, for all observations or in a list for each.')
        with self.lock:
            for name, start in zip(names, starts, strict=True):
                if not start and name not in self.sessions:
                    raise Refusal(
                        404,
                        f"There is no session {name!r}: it never started, or {self.limits.sessions:,} others were used "
                        f'since; begin its episode with "start": true.',
                    )
            kept = [self.start if start else self.sessions[name] for name, start in zip(names, starts, strict=True)]
            memory = [np.stack(parts) for parts in zip(*kept, strict=True)]
            actions, memory = self.policy.step(given, memory)
            for row, name in enumerate(names):
                self.sessions[name] = [part[row].copy() for part in memory]
                self.sessions.move_to_end(name)
            while len(self.sessions) > self.limits.sessions:
                self.sessions.popitem(last=False)
        return actions

    def about(self) -> dict[str, Any]:
        """Return the answer to `/version`: the policy, its versions and the server's."""
        manifest = self.policy.manifest
        named = {key: manifest[key] for key in ("agent", "environment", "member", "actions")}
        return named | {"exported_by": manifest["versions"], "server": {"forage": package_version("forage-rl")}}

    def index(self) -> dict[str, Any]:
        """Return the answer to `/`: the addresses, an example of a request and the limits."""
        example: dict[str, Any] = {"observation": self.example()}
        if self.start:
            example |= {"session": "episode-1", "start": True}
        return {
            "POST /act": 'an action for {"observation": ...}, or actions for {"observations": [...]}',
            "GET /health": "whether the server answers",
            "GET /version": "the policy and its versions",
            "GET /manifest": "spaces, names, types and shapes of what goes in and comes out",
            "example": example,
            "limits": self.limits._asdict(),
        }

    def example(self) -> Any:
        """Return an observation as JSON: of a table a usual row, else the least of each choice and zeros elsewhere."""
        if self.table is not None:
            return {column.name: column.example for column in self.table.observation}
        found: Any = {}
        for leaf in self.leaves:
            start = leaf.space.get("start") or 0
            value = np.broadcast_to(np.asarray(start, leaf.dtype), leaf.shape).tolist()
            if not leaf.path:
                return value
            place = found
            for key in leaf.path[:-1]:
                place = place.setdefault(key, {})
            place[leaf.path[-1]] = value
        return found


def is_name(name: Any) -> bool:
    """Return whether a value can name a session."""
    return isinstance(name, str) and 0 < len(name) <= 100


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body. Raise `Refusal` if it is none."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no number of JSON")

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key stands twice in one object")
        return found

    try:
        found = json.loads(body.decode("utf-8"), parse_constant=refuse, object_pairs_hook=collect)
    except (ValueError, RecursionError) as error:
        said = str(error).rstrip(".")
        raise Refusal(400, f"The body is no JSON in UTF-8 that can be read: {said[:200]}.") from None
    if not isinstance(found, dict):
        raise Refusal(400, f'A request is an object, such as {{"observation": ...}}, not {json_kind(found)}.')
    return found
