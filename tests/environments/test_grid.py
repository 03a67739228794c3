"""The grid worlds against the `minigrid` package: from its states, with its random numbers, step for step."""

from __future__ import annotations

import collections
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.environments import make
from forage.environments.grid.missions import mission_text

pytest.importorskip("minigrid")

from grid_reference import record

EVERYTHING = ("image", "full", "direction", "mission")

# One size of each family at least; `steps` are enough for what `events` names to happen.
CASES: dict[str, tuple[int, set[str]]] = {
    "Empty-5x5": (400, set()),
    "Empty-Random-6x6": (400, set()),
    "FourRooms": (600, set()),
    "DoorKey-5x5": (900, {"pickup", "drop", "unlock", "toggle"}),
    "DoorKey-8x8": (2000, {"pickup", "drop", "unlock", "toggle"}),
    "MultiRoom-N2-S4": (700, {"toggle"}),
    "MultiRoom-N6": (900, {"toggle"}),
    "MultiRoom-N7-S8": (900, {"toggle"}),
    "KeyCorridor-S3R1": (900, {"pickup", "drop", "unlock", "toggle"}),
    "KeyCorridor-S4R3": (2500, {"pickup", "drop", "unlock", "toggle"}),
    "ObstructedMaze-1Dl": (900, {"pickup", "drop", "unlock", "toggle"}),
    "ObstructedMaze-1Dlhb": (1800, {"pickup", "drop", "unlock", "toggle", "box"}),
    "ObstructedMaze-2Dlh": (2500, {"pickup", "drop", "unlock", "toggle", "box"}),
    "ObstructedMaze-Full": (3000, {"pickup", "drop", "unlock", "toggle", "box"}),
    "Unlock": (700, {"pickup", "drop", "unlock"}),
    "UnlockPickup": (1200, {"pickup", "drop", "unlock", "toggle", "box"}),
    "BlockedUnlockPickup": (2500, {"pickup", "drop", "unlock", "toggle", "box"}),
    "LavaGap-S5": (500, set()),
    "DynamicObstacles-Random-5x5": (700, set()),
    "DynamicObstacles-8x8": (900, set()),
    "Memory-S7": (700, set()),
    "Memory-S13Random": (1200, set()),
    "GoToDoor-6x6": (700, set()),
    "RedBlueDoors-6x6": (900, {"toggle"}),
}


def compare(id: str, steps: int, seed: int, **options: Any) -> tuple[dict[str, Any], collections.Counter[str]]:
    env = make(id, observe=EVERYTHING, **options)
    played = record(id, env, steps, seed, **options)

    def advance(state: Any, row: Any) -> tuple[Any, Any]:
        start, before, action, draws = row
        state = jax.tree.map(lambda new, old: jnp.where(start, new, old), before, state)
        first = env.observation(state)
        state, step = env.advance(state, action, draws)
        return state, (first, state, step)

    begun = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), played["before"])
    rows = (played["start"], played["before"], played["action"], played["draws"])
    _, (first, after, step) = jax.jit(lambda state, rows: jax.lax.scan(advance, state, rows))(begun, rows)

    starts = np.flatnonzero(played["start"])
    np.testing.assert_array_equal(first["image"][starts], played["first"][starts])
    for field in after._fields:
        np.testing.assert_array_equal(getattr(after, field), getattr(played["after"], field), err_msg=field)
    for name in ("image", "full", "direction"):
        np.testing.assert_array_equal(step.observation[name], played[name], err_msg=name)
    assert [mission_text(tokens) for tokens in step.observation["mission"]] == played["mission"]
    np.testing.assert_allclose(step.reward, played["reward"], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(step.terminated, played["terminated"])
    np.testing.assert_array_equal(step.truncated, played["truncated"] & ~played["terminated"])
    return played, collections.Counter(played["event"])


@pytest.mark.parametrize("name", CASES)
def test_every_step_equals_the_package(name: str) -> None:
    steps, events = CASES[name]
    played, happened = compare(f"grid:{name}", steps, seed=7, max_steps=steps // 5)
    assert events <= set(happened), happened
    assert (played["reward"] > 0).sum() >= 2, "no success was played"
    assert (played["reward"] == 0).any() and played["start"].sum() > 4
    if not name.startswith(("MultiRoom", "DynamicObstacles", "GoToDoor")):  # where a plan or a mistake ends it first
        assert (played["truncated"] & ~played["terminated"]).any(), "time never ran out"
