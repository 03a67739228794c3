"""Are both halves of mixed actions learned? PPO and SAC beside the best that either half alone can do.

    python benchmarks/mixed.py              train five seeds of both in both environments, and print the table
    python benchmarks/mixed.py --bounds     print what is known without training

Seeds are 100 to 104: settings were chosen on others.

Two small environments in which a choice and a number matter together:

- `Hops`: gaps of a width that is seen, one after another; a hop lands at 0 to 0.5, a leap at 0.5 to 1, by its power. A
  landing in the 0.1 behind the gap counts 1 and brings the next gap, any other ends the episode; ten gaps at most.
- `Courier`: a vehicle turns by, or drives, an amount from -1 to 1, half a turn or a unit at most, in three moves. The
  reward is what brings it nearer to a goal that is drawn anew for each episode.

The best of one half is computed, not learned: of all policies that choose the move by what they see, with the best
constant number; and of all that choose the number, with the best constant move.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from forage.core.ports import Environment
from forage.core.types import Step

MARGIN, GAPS, MOVES = 0.1, 10, 3
AGENTS = {
    "ppo": {"num_envs": 32, "rollout_length": 32, "learning_rate": 1e-3, "entropy_coefficient": 0.003},
    "sac": {"learning_rate": 1e-3, "hidden_sizes": (64, 64), "batch_size": 64, "learning_starts": 500}
    | {"num_envs": 4, "rollout_length": 1, "updates_per_rollout": 4, "discount": 0.95, "initial_temperature": 0.1},
}
STEPS = {"ppo": 300_000, "sac": 6_000}
SEEDS = list(range(100, 105))


class Hops(Environment):
    """Gaps that a hop or a leap of the right power crosses."""

    horizon = GAPS
    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Dict({"move": spaces.Discrete(2), "power": spaces.Box(0, 1, (1,), np.float32)})

    def reset(self, key):
        state = {"gap": draw_gaps(key), "crossed": jnp.int32(0)}
        return state, state["gap"][None]

    def step(self, state, action, key):
        landed = 0.5 * action["move"] + 0.5 * action["power"][0]
        over = (landed >= state["gap"]) & (landed <= state["gap"] + MARGIN)
        state = {"gap": draw_gaps(key), "crossed": state["crossed"] + over}
        ended = ~over
        seen = state["gap"][None]
        return state, Step(seen, over.astype(jnp.float32), ended, ~ended & (state["crossed"] >= GAPS), {})


def draw_gaps(key, shape=()):
    return jax.random.uniform(key, shape, minval=0.0, maxval=1 - MARGIN)


class Courier(Environment):
    """A vehicle that turns or drives towards a goal."""

    horizon = MOVES
    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.Dict({"move": spaces.Discrete(2), "amount": spaces.Box(-1, 1, (1,), np.float32)})

    def reset(self, key):
        goal = draw_goals(key)
        return (goal, jnp.int32(0)), observe(goal, 0)

    def step(self, state, action, key):
        goal, time = state
        after = move_goal(goal, action["move"], action["amount"][0])
        reward = jnp.linalg.norm(goal) - jnp.linalg.norm(after)
        time = time + 1
        return (after, time), Step(observe(after, time), reward, jnp.bool_(False), time >= MOVES, {})


def draw_goals(key, shape=()):
    return jax.random.uniform(key, (*shape, 2), minval=-1.5, maxval=1.5)


def observe(goal, time):
    return jnp.concatenate([goal, jnp.asarray(time, jnp.float32)[None] / MOVES])


def move_goal(goal, move, amount):
    """Return the goal as the vehicle sees it, which looks along the first axis, after a turn (0) or a drive (1)."""
    angle = jnp.where(move == 0, -jnp.pi * amount, 0.0)
    turned = jnp.stack([
        jnp.cos(angle) * goal[..., 0] - jnp.sin(angle) * goal[..., 1],
        jnp.sin(angle) * goal[..., 0] + jnp.cos(angle) * goal[..., 1],
    ], -1)  # fmt: skip
    return turned - jnp.where(move == 1, amount, 0.0) * jnp.array([1.0, 0.0])


def bounds_of_hops() -> dict[str, float]:
    """Return the best mean returns: of the full action, of the moves alone and of the power alone."""
    gap = np.asarray(draw_gaps(jax.random.key(0), (200_000,)))
    crossed = lambda landed: (landed >= gap) & (landed <= gap + MARGIN)  # noqa: E731
    moves = max((crossed(0.5 * c) | crossed(0.5 + 0.5 * c)).mean() for c in np.linspace(0, 1, 101))
    power = max((gap <= 0.5).mean(), (gap + MARGIN >= 0.5).mean())
    total = lambda p: float(sum(p**k for k in range(1, GAPS + 1)))  # noqa: E731
    return {"best": float(GAPS), "choices alone": total(moves), "numbers alone": total(power)}


def bounds_of_courier() -> dict[str, float]:
    goals = draw_goals(jax.random.key(0), (4_000,))
    first = np.linalg.norm(goals, axis=1)
    numbers = (first - np.abs(np.asarray(goals[:, 1]))).mean()  # driving alone, to the nearest point ahead or behind
    sequences = jnp.array(list(itertools.product(range(2), repeat=MOVES)))

    @jax.jit
    def nearest(amount):
        def distance(sequence):
            at = jax.lax.fori_loop(0, MOVES, lambda i, goal: move_goal(goal, sequence[i], amount), goals)
            return jnp.linalg.norm(at, axis=1)

        return jax.lax.map(distance, sequences).min(0).mean()

    choices = max(first.mean() - float(nearest(c)) for c in np.linspace(-1, 1, 41))
    best = np.minimum(first, MOVES - 1).mean()  # one turn, and drives of one unit
    return {"best": float(best), "choices alone": float(choices), "numbers alone": float(numbers)}


ENVIRONMENTS = {"Hops": (Hops, bounds_of_hops), "Courier": (Courier, bounds_of_courier)}


def main() -> None:
    import forage

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bounds", action="store_true", help="compute the best returns alone")
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=list(AGENTS))
    parser.add_argument("--environments", nargs="+", choices=ENVIRONMENTS, default=list(ENVIRONMENTS))
    arguments = parser.parse_args()
    for name in arguments.environments:
        cls, bounds = ENVIRONMENTS[name]
        print(name, {key: round(value, 3) for key, value in bounds().items()}, flush=True)
        for agent in () if arguments.bounds else arguments.agents:
            with tempfile.TemporaryDirectory() as folder:
                run = forage.train(
                    agent, cls(), steps=STEPS[agent], seeds=SEEDS, agent_options=AGENTS[agent], evaluation_episodes=256,
                    directory=Path(folder) / "run", display="quiet",
                )  # fmt: skip
                scores = sorted(run.evaluation["return"])
                print(f"  {agent:4} {np.mean(scores):.3f}  seeds {[round(score, 3) for score in scores]}", flush=True)


if __name__ == "__main__":
    main()
