"""The grid worlds against the `minigrid` package: from its states, with its random numbers, step for step."""

from __future__ import annotations

import collections
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from beside import Beside, assert_beside
from grid_reference import byte_of, package_make, record
from tiers import gate_cases

from forage.core.types import ForageError
from forage.environments import make
from forage.environments.checking import check_environment
from forage.environments.grid.cells import COLOURS
from forage.environments.grid.ids import ENTRIES
from forage.environments.grid.missions import VOCABULARY, mission_text, mission_tokens
from forage.environments.grid.view import VIEW, visible

EVERYTHING = ("image", "full", "direction", "mission")
OWN = ("Maze-13x13", "LavaToll-S5")  # not the package's

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

GATE = ("MultiRoom-N2-S4", "KeyCorridor-S3R1", "Memory-S7")


@pytest.fixture
def package() -> None:
    pytest.importorskip("minigrid")


def beside_the_package(test: Any) -> Any:
    """Mark a test that needs the package; warnings about its older ids are ignored."""
    return pytest.mark.usefixtures("package")(pytest.mark.filterwarnings("ignore:.*out of date")(test))


def compare(name: str) -> tuple[dict[str, Any], Beside]:
    """Return episodes of the package and our own from its starts, with its random numbers."""
    id, steps = f"grid:{name}", CASES[name][0]
    env = make(id, observe=EVERYTHING, max_steps=steps // 5)
    played = record(id, env, steps, 7, max_steps=steps // 5)

    def advance(state: Any, row: Any) -> tuple[Any, Any]:
        start, before, action, draws = row
        state = jax.tree.map(lambda new, old: jnp.where(start, new, old), before, state)
        first = env.observation(state)
        state, step = env.advance(state, action, draws)
        return state, (first, state, step)

    begun = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), played["before"])
    rows = (played["start"], played["before"], played["action"], played["draws"])
    _, (first, after, step) = jax.jit(lambda state, rows: jax.lax.scan(advance, state, rows))(begun, rows)

    starts, names = np.flatnonzero(played["start"]), ("image", "full", "direction")
    missions = [mission_text(tokens) for tokens in step.observation["mission"]]
    return played, {
        "first observations": (first["image"][starts], played["first"][starts]),
        "states": (tuple(after), tuple(played["after"])),
        "observations": ([step.observation[name] for name in names], [played[name] for name in names]),
        "missions": (np.array(missions), np.array(played["mission"])),
        "rewards": (step.reward, played["reward"]),
        "ends": (
            (step.terminated, step.truncated),
            (played["terminated"], played["truncated"] & ~played["terminated"]),
        ),
    }


@beside_the_package
@pytest.mark.parametrize("name", gate_cases(CASES, GATE))
def test_every_step_equals_the_package(name: str) -> None:
    played, found = compare(name)
    assert_beside(found, rewards=1e-6)
    happened = collections.Counter(played["event"])
    assert CASES[name][1] <= set(happened), happened
    assert (played["reward"] > 0).sum() >= 2, "no success was played"
    assert (played["reward"] == 0).any() and played["start"].sum() > 4
    if not name.startswith(("MultiRoom", "DynamicObstacles", "GoToDoor")):  # where a plan or a mistake ends it first
        assert (played["truncated"] & ~played["terminated"]).any(), "time never ran out"


@beside_the_package
@pytest.mark.parametrize("name", [name.removeprefix("grid:") for name in ENTRIES if name[5:] not in OWN])
def test_every_id_is_the_packages_environment(name: str) -> None:
    ours, theirs = make(f"grid:{name}"), package_make(f"grid:{name}")
    assert (ours.width, ours.height) == (theirs.width, theirs.height)
    assert ours.max_steps == theirs.max_steps
    assert ours.see_through_walls == theirs.see_through_walls
    assert ours.action_space == theirs.action_space


@beside_the_package
def test_what_walls_hide_is_what_the_package_hides() -> None:
    """Random clutter shows cases that no level has."""
    from minigrid.core.grid import Grid
    from minigrid.core.world_object import Door, Key, Wall

    random = np.random.RandomState(0)
    things = (Wall(), Wall(), Wall(), Wall(), Key(), Door("red"), Door("red", is_open=True))
    hidden, views = [], []
    for density in np.linspace(0.3, 0.9, 600):
        grid = Grid(VIEW, VIEW)
        for index in range(VIEW * VIEW):
            grid.grid[index] = things[random.randint(len(things))] if random.rand() < density else None
        views.append([[byte_of(grid.get(column, row)) for row in range(VIEW)] for column in range(VIEW)])
        hidden.append(grid.process_vis((VIEW // 2, VIEW - 1)))
    np.testing.assert_array_equal(jax.jit(jax.vmap(visible))(jnp.array(views, jnp.uint8)), hidden)
    assert len({mask.tobytes() for mask in hidden}) > 100


@pytest.mark.parametrize(
    "observe", [pytest.param((name,), marks=pytest.mark.thorough) for name in EVERYTHING] + [EVERYTHING]
)
def test_observations_lie_in_their_space(observe: tuple[str, ...]) -> None:
    for name in ("GoToDoor-6x6", "RedBlueDoors-6x6"):
        env = make(f"grid:{name}", observe=observe)
        check_environment(env, name)
        _, observation = jax.jit(env.reset)(jax.random.key(0))
        assert env.observation_space.contains(jax.tree.map(np.asarray, observation))
        if len(observe) > 1:
            assert set(observation) == set(observe)


def test_missions_are_tokens_and_back() -> None:
    text = "use the key to open the door and then get to the goal"
    assert mission_text(mission_tokens(text)) == text and mission_tokens(text).shape == (16,)
    assert VOCABULARY[1:7] == COLOURS and len(set(VOCABULARY)) == len(VOCABULARY)
    with pytest.raises(ForageError, match="'elephant'"):
        mission_tokens("pick up the elephant")
