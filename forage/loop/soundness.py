"""The check that a run's state is finite, and the search for the part at fault."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from forage.core.types import Experience, ForageError
from forage.loop.learner import LearnerState, finite

BLOCK = 1 << 24  # numbers looked at together, so that a large memory needs no second one
LEARNED = {
    "agent": ("The agent's parameters", "a smaller learning rate often helps"),
    "rewards": ("What the rewards part has learned", "a smaller learning rate or bonus often helps"),
    "behaviour": ("What the behaviour remembers", "other options of the behaviour may help"),
}
"""The parts that learn: the name of their numbers in messages, and a remedy."""

OWN = re.compile(rf"^(?:\[\d+\])?\.learner\.({'|'.join(LEARNED)})(?=\W|$)(.*)$", re.DOTALL)
SEEN = re.compile(
    r"^(?:\[\d+\])?\.(?:learner\.memory|pending|pool\.starts|actors\.at)(?!.*\.(?:env_state|info\[))"
    r".*?\.((?:next_)?observation|reward|action|rewards_info)(?=\W|$)(.*?)(?:\.(?:store|newest|after))?$",
    re.DOTALL,
)
"""Leaves of a checkpoint that hold experience; an environment's private state is not checked.

The last names are of a ring that keeps large observations once (`ring.Frames`).
"""


class Unsound(ForageError):
    """A value that is not finite. The state must not be saved."""


class Bad(NamedTuple):
    """A number that is not finite."""

    entry: str  # such as `reward`, `observation['speed'][2]` or `network.actor.weight[0, 3]`
    value: str  # NaN or infinity


class NotFinite(ForageError):
    """A leaf of a state that is about to be saved holds a number that is not finite."""

    def __init__(self, part: str, bad: Bad, member: int):
        self.part, self.bad, self.member = part, bad, member
        super().__init__(f"{bad.entry} of {part} is {bad.value}.")


def sound(state: LearnerState) -> Bool[Array, ""]:
    """Return whether one seed's learned state is finite. A behaviour may start from an infinity, but not become NaN."""
    numbers = [x for x in jax.tree.leaves(state.behaviour) if jnp.issubdtype(x.dtype, jnp.floating)]
    return finite((state.agent, state.rewards)) & ~jnp.array([jnp.isnan(x).any() for x in numbers], bool).any()


def first_bad(array: np.ndarray, infinity: bool = True) -> tuple[int, ...] | None:
    """Return the index of the first number that is NaN or (`infinity`) infinite; `None` if there is none."""
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return None
    flat = array.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        block = flat[start : start + BLOCK]
        bad = ~np.isfinite(block) if infinity else np.isnan(block)
        if bad.any():
            return tuple(int(i) for i in np.unravel_index(start + int(bad.argmax()), array.shape))
    return None


def name_leaf(name: str, array: np.ndarray, index: tuple[int, ...], skip: int) -> Bad:
    """Name a number by its leaf and its place there, without the leading `skip` axes."""
    where = f"[{', '.join(map(str, index[skip:]))}]" if index[skip:] else ""
    return Bad(f"{name.lstrip('.')}{where}", "NaN" if np.isnan(array[index]) else "infinity")


def check_leaf(name: str, array: np.ndarray) -> None:
    """Raise `NotFinite` for a leaf of a checkpoint that has a value that is not finite.

    What agents, rewards and behaviours have learned and what was experienced is looked at. `name` is the leaf's path in
    the state of either runner.
    """
    own, seen = OWN.match(name), SEEN.match(name)
    if not own and not seen:
        return
    part = own[1] if own else "the experience"
    index = first_bad(array, infinity=part != "behaviour")
    if index is None:
        return
    # On the host each seed has a state of its own; on the device the leading axis is the seeds'.
    host = re.match(r"\[(\d+)\]", name)
    member = int(host[1]) if host else index[0]
    shown = own[2] if own else f"{seen[1]}{seen[2]}"  # type: ignore[index]
    raise NotFinite(part, name_leaf(shown, array, index, 0 if host else 1), member)


def find_nonfinite(learner: LearnerState, member: int | None) -> tuple[str, Bad] | None:
    """Find the part, and the number in it, that is not finite. `member`: the row of a state of many seeds."""
    for part in LEARNED:
        for path, leaf in jax.tree_util.tree_flatten_with_path(getattr(learner, part))[0]:
            if not jnp.issubdtype(leaf.dtype, jnp.floating):
                continue
            array = np.asarray(leaf if member is None else leaf[member])
            if (index := first_bad(array, infinity=part != "behaviour")) is not None:
                return part, name_leaf(jax.tree_util.keystr(path), array, index, 0)
    return None


class FirstBadStep(NamedTuple):
    """The first number of a rollout that is not finite, in order of time."""

    bad: Bad
    time: int
    env: int
    ours: bool  # it is an action, so the agent's and not the environment's


def search_rollout(rollout: Experience, num_agents: int) -> FirstBadStep | None:
    """Find the first number that is not finite in one seed's rollout (leaves `time env *agent ...`)."""
    found: list[tuple[int, int, FirstBadStep]] = []
    for order, field in enumerate(("observation", "action", "reward", "next_observation")):
        for path, leaf in jax.tree_util.tree_flatten_with_path(getattr(rollout, field))[0]:
            array = np.asarray(leaf)
            if (index := first_bad(array)) is None:
                continue
            name = field.removeprefix("next_") + jax.tree_util.keystr(path)
            bad = name_leaf(name, array, index, 2 if num_agents == 1 else 3)
            if num_agents > 1:
                bad = bad._replace(entry=f"{bad.entry} of agent {index[2]}")
            found.append((index[0], order, FirstBadStep(bad, index[0], index[1], field == "action")))
    return min(found, key=lambda one: one[:2])[2] if found else None


def learned_sentence(part: str, bad: Bad | None, where: str, seed: Any) -> str:
    """Describe a learned value that is not finite. `where`: such as `between steps 16 and 32`."""
    what, advice = LEARNED[part]
    which = f", in {bad.entry}" if bad else ""
    return f"{what} became {bad.value if bad else 'NaN'} {where} with seed {seed}{which}; {advice}."


def reason_to_stop(name: str, seed: int, environment_finite: Any, agent_finite: Any) -> str:
    """Describe why a member cannot continue; empty if it can."""
    if not environment_finite:
        return f"{name} returned NaN or infinity with seed {seed}."
    return "" if agent_finite else f"What the agent learned became NaN with seed {seed}."


def check_returns(name: str, returns: np.ndarray, seeds: list[int]) -> None:
    """Raise `ForageError` if an evaluation's returns `[seed, episode, ...]` are not all finite."""
    if (index := first_bad(returns)) is not None:
        value = "NaN" if np.isnan(returns[index]) else "infinity"
        raise ForageError(
            f"{name} returned {value} as reward in evaluation, in episode {index[1]} with seed {seeds[index[0]]}; mend "
            f"the environment."
        )
