"""The catalogue: a row for each native environment, and one for each library with an adapter. Data only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from forage.environments.boards import ids as boards_ids
from forage.environments.entry import Entry
from forage.environments.grid import ids as grid_ids
from forage.environments.language import ids as language_ids
from forage.environments.maze import ids as maze_ids
from forage.environments.memory import ids as memory_ids
from forage.environments.tabular import ids as tabular_ids
from forage.environments.teams import ids as teams_ids


class Suite(NamedTuple):
    """A library with environments named `prefix:id`.

    `target` is called as `target(id, **options)` and returns an `Environment`; with `host` it is a `HostEnvironment`,
    called as `target(target=id, num_envs=n, name=full_id, **options)`. The module `names` (by default the target's own)
    has `ids() -> {id: description}`; if more ids exist than it lists, it also has `canonical(id) -> id`, which raises
    `ForageError` for an unknown id.
    """

    target: str  # module:callable below forage.environments
    library: str  # what is imported
    extra: str  # of pip install 'forage-rl[extra]'; empty where the library comes with Forage
    description: str
    host: bool = False
    names: str = ""
    example: str = ""  # an id, for messages and for `forage list` where the library is not installed

    @property
    def names_module(self) -> str:
        return self.names or self.target.partition(":")[0]


NATIVE: dict[str, Entry] = {
    "CartPole-v1": Entry("classic.cartpole:CartPole", "Keep a pole upright on a cart; 500 steps."),
    "CartPole-v0": Entry("classic.cartpole:CartPole", "Keep a pole upright on a cart; 200 steps.", {"max_steps": 200}),
    "CartPole-masked": Entry(
        "classic.cartpole:CartPole", "CartPole with its velocities hidden: it takes memory.", keep=(0, 2)
    ),
    "Acrobot-v1": Entry("classic.acrobot:Acrobot", "Swing a two-link arm above a line by its elbow."),
    "MountainCar-v0": Entry("classic.mountain_car:MountainCar", "Rock a weak car out of a valley; reward is rare."),
    "MountainCarContinuous-v0": Entry(
        "classic.mountain_car:MountainCarContinuous", "Rock a weak car out of a valley by a continuous force."
    ),
    "MountainCar-sparse": Entry(
        "classic.mountain_car:MountainCar", "The car in the valley, paid at the goal only.", {"sparse": True}
    ),
    "MountainCarContinuous-sparse": Entry(
        "classic.mountain_car:MountainCarContinuous",
        "The car in the valley by a continuous force, paid at the goal only.",
        {"effort_cost": 0.0, "goal_reward": 1.0},
    ),
    "CartPole-swingup": Entry(
        "classic.cartpole_swingup:CartPoleSwingUp", "Swing up a hanging pole; moving costs, and nothing else is paid."
    ),
    "Pendulum-sparse": Entry(
        "classic.pendulum:Pendulum", "Swing up a pendulum, paid only where it stands.", {"sparse": True}
    ),
    "Pendulum-cost": Entry(
        "classic.pendulum:PendulumCost", "Swing up a pendulum, with a cost beside the reward: 1 for each strong torque."
    ),
    "Pendulum-v1": Entry("classic.pendulum:Pendulum", "Swing up a pendulum by a continuous torque and hold it."),
    "DeepSea-N": Entry("classic.deep_sea:DeepSea", "Exploration in an N x N grid; DeepSea-10, or any size from 2 up."),
    "DeepSeaTreasure-v0": Entry(
        "classic.deep_sea_treasure:DeepSeaTreasure", "Two objectives: the value of a treasure and the time to it."
    ),
    **{
        f"BitFlip-{size}": Entry(
            "classic.bit_flip:bit_flip",
            f"Flip one of {size} bits at a time until they are as asked.",
            {"size": size},
        )
        for size in (10, 20)
    },
    "minatar:Asterix": Entry("minatar.asterix:Asterix", "MinAtar: collect treasure, avoid enemies."),
    "minatar:Breakout": Entry("minatar.breakout:Breakout", "MinAtar: break bricks with a ball."),
    "minatar:Freeway": Entry("minatar.freeway:Freeway", "MinAtar: cross a road."),
    "minatar:Seaquest": Entry("minatar.seaquest:Seaquest", "MinAtar: rescue divers before the oxygen runs out."),
    "minatar:SpaceInvaders": Entry("minatar.space_invaders:SpaceInvaders", "MinAtar: shoot rows of aliens."),
    **boards_ids.ENTRIES,
    **maze_ids.ENTRIES,
    **language_ids.ENTRIES,
    **memory_ids.ENTRIES,
    **tabular_ids.ENTRIES,
    **teams_ids.ENTRIES,
    **grid_ids.ENTRIES,
}

SUITES: Mapping[str, Suite] = {
    "gymnasium": Suite(
        "adapters.gymnasium.environment:GymnasiumEnvironment",
        "gymnasium",
        "",
        "Any id of Gymnasium's registry; module:Id-v0 imports the module that registers it.",
        host=True,
        names="adapters.gymnasium.ids",
        example="HalfCheetah-v5",
    ),
    "text": Suite(
        "text.environment:TextEnvironment",
        "forage",
        "",
        "Problems in text with a verifier, with tools or without, and games; for agents of language.",
        host=True,
        names="text.names",
        example="addition",
    ),
    "envpool": Suite(
        "adapters.envpool:EnvPoolEnvironment",
        "envpool",
        "envpool",
        "Any id of envpool.list_all_envs().",
        host=True,
        example="Pong-v5",
    ),
    "ale": Suite(
        "adapters.ale:ALEEnvironment",
        "ale_py",
        "atari",
        "Atari games in ale-py's own vector environment, in C++ threads.",
        host=True,
        example="Pong",
    ),
    "pettingzoo": Suite(
        "adapters.pettingzoo:PettingZooEnvironment",
        "pettingzoo",
        "pettingzoo",
        "Many agents in Python, at once or in turns: classic games, particles, butterfly, sisl.",
        host=True,
        example="mpe/simple_spread_v3",
    ),
    "jaxmarl": Suite(
        "adapters.jax.jaxmarl:JaxMARL",
        "jaxmarl",
        "jaxmarl",
        "Many agents in JAX: particles, SMAX, Overcooked, Hanabi, coin game.",
        example="MPE_simple_spread_v3",
    ),
    "mo-gymnasium": Suite(
        "adapters.gymnasium.mo_gymnasium:MOGymnasiumEnvironment",
        "mo_gymnasium",
        "mo-gymnasium",
        "Environments with several rewards, which have names; the rewards port makes one of them.",
        host=True,
        example="deep-sea-treasure-v0",
    ),
    "robotics": Suite(
        "adapters.gymnasium.robotics:RoboticsEnvironment",
        "gymnasium_robotics",
        "robotics",
        "Gymnasium-Robotics: Fetch, hands, mazes and a kitchen, with goals in the observation.",
        host=True,
        example="FetchReach-v4",
    ),
    "dm_control": Suite(
        "adapters.gymnasium.dm_control:DMControlEnvironment",
        "dm_control",
        "dm-control",
        "DeepMind Control from its own package, as numbers or pixels.",
        host=True,
        example="walker-walk",
    ),
    "ogbench": Suite(
        "adapters.gymnasium.ogbench:OGBenchEnvironment",
        "ogbench",
        "ogbench",
        "OGBench: mazes, cubes, scenes and puzzles, with a goal or for one task.",
        host=True,
        example="antmaze-medium-singletask-v0",
    ),
    "gymnax": Suite(
        "adapters.jax.gymnax:Gymnax",
        "gymnax",
        "gymnax",
        "Any id of gymnax: classic control, bsuite, MinAtar and small ones.",
        example="CartPole-v1",
    ),
    "craftax": Suite(
        "adapters.jax.craftax:Craftax",
        "craftax",
        "craftax",
        "Craftax and Craftax-Classic, as symbols or pixels.",
        example="Craftax-Symbolic-v1",
    ),
    "brax": Suite(
        "adapters.jax.brax:Brax",
        "brax",
        "brax",
        "Any id of Brax: robots in a differentiable simulator.",
        example="ant",
    ),
    "jumanji": Suite(
        "adapters.jax.jumanji:Jumanji",
        "jumanji",
        "jumanji",
        "Any id of Jumanji: puzzles, packing and routing, with action masks.",
        example="Snake-v1",
    ),
    "navix": Suite(
        "adapters.jax.navix:Navix",
        "navix",
        "navix",
        "Any id of NAVIX: MiniGrid in JAX.",
        example="Navix-Empty-8x8-v0",
    ),
    "xland": Suite(
        "adapters.jax.xland:XLand",
        "xminigrid",
        "xland",
        "Any id of XLand-MiniGrid: rules and goals that change, and MiniGrid.",
        example="XLand-MiniGrid-R1-9x9",
    ),
    "playground": Suite(
        "adapters.jax.playground:Playground",
        "mujoco_playground",
        "playground",
        "Any id of MuJoCo Playground: the DeepMind Control Suite, legged robots, arms and hands, on MJX.",
        example="CartpoleBalance",
    ),
}


SIZED = re.compile(r"deepsea-(\d+)", re.IGNORECASE)
"""Ids of DeepSea with its size in its name."""


def native_id(id: str) -> str | None:
    """Return the id of a native environment in its proper spelling; `None` for any other id."""
    if match := SIZED.fullmatch(id):
        return f"DeepSea-{int(match[1])}"
    return next((name for name in NATIVE if name.lower() == id.lower() and name != "DeepSea-N"), None)


def native_entry(name: str) -> Entry:
    """Return the row of a native environment by its id, with the size that its name gives."""
    if match := SIZED.fullmatch(name):
        row = NATIVE["DeepSea-N"]
        return row._replace(fields={**row.fields, "size": int(match[1])})
    return NATIVE[name]
