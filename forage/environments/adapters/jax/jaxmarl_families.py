"""Facts about each family of JaxMARL environments that the library does not express in a uniform way."""

# Where types are checked without the library, a file of ours is taken for it.
from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import jax.numpy as jnp
from jaxtyping import Array, Bool

from forage.core.types import ForageError
from forage.environments.adapters.jax import common as foreign

# It prints what it did not find, and one of its imports undoes a redirection of stdout.
with warnings.catch_warnings(), mock.patch("builtins.print"):
    warnings.simplefilter("ignore")
    import jaxmarl
    from jaxmarl.environments.overcooked.layouts import overcooked_layouts
    from jaxmarl.environments.overcooked_v2.layouts import overcooked_v2_layouts
    from jaxmarl.environments.smax.smax_env import MAP_NAME_TO_SCENARIO


class Family(NamedTuple):
    """The facts about a kind of environment that the library does not state in one way.

    `out_of_time(environment, state, reward)`: the clock is why it ended for an agent, not the task.
    """

    name: str  # JaxMARL's id
    out_of_time: Callable[[Any, Any, Any], Any]
    horizon: Callable[[Any], int | None] = lambda env: int(env.max_steps)
    leaves: bool = False  # an agent that is done before the others has ended: nothing that comes is to its credit
    falls: bool = False  # an agent that is done before the others acts no more, but gains what its team gains
    waits: Callable[[Any, Any], Any] | None = None  # who of `(environment, state)` does not act now, but plays on
    mask: str = ""  # the method that says which actions are allowed


def always_terminal(env: Any, state: Any, reward: Any) -> Bool[Array, ""]:
    return jnp.bool_(True)


def never_terminal(env: Any, state: Any, reward: Any) -> Bool[Array, ""]:
    return jnp.bool_(False)


def smax_time(env: Any, state: Any, reward: Any) -> Bool[Array, ""]:
    inner = getattr(state, "state", state)
    alive = inner.unit_alive
    return (inner.step > env.max_steps) & alive[: env.num_allies].any() & alive[env.num_allies :].any()


def riddle_time(env: Any, state: Any, reward: Any) -> Bool[Array, ""]:
    return (state.step >= env.max_steps) & (reward[0] == 0)  # somebody who speaks ends the task


def nav_time(env: Any, state: Any, reward: Any) -> Bool[Array, " agent"]:
    return (state.step >= env.max_steps) & ~(state.goal_reached | state.move_term).astype(bool)


def hanabi_others(env: Any, state: Any) -> Bool[Array, " agent"]:
    turn = state.cur_player_idx[jnp.argsort(state.seat_order)]  # of seats, to of agents
    return turn == 0


def nav_crashed(env: Any, state: Any) -> Bool[Array, " agent"]:
    return jnp.asarray(state.move_term, bool)  # it stands where it crashed, until the episode is over


# MPE and SMAX look at the clock before they advance it, so that their episodes are one step longer than they say.
MPE = Family("MPE", always_terminal, lambda env: int(env.max_steps) + 1)
SMAX = Family("SMAX", smax_time, lambda env: int(env.max_steps) + 1, falls=True, mask="get_avail_actions")
OTHERS = {
    "switch_riddle": Family("switch_riddle", riddle_time),
    "hanabi": Family("hanabi", never_terminal, lambda env: None, waits=hanabi_others, mask="get_legal_moves"),
    "coin_game": Family("coin_game", always_terminal, lambda env: None),
    "jaxnav": Family("jaxnav", nav_time, leaves=True, waits=nav_crashed),
}


def ids() -> dict[str, str]:
    """Return every id after `jaxmarl:` with a line of description."""
    mpe = [id for id in jaxmarl.registered_envs if id.startswith("MPE_")]
    return {
        **{id: f"JaxMARL: particles, {id[4:].replace('_', ' ')}." for id in mpe},
        **{f"SMAX-{scenario}": f"JaxMARL: {scenario} against the built-in enemy." for scenario in MAP_NAME_TO_SCENARIO},
        "SMAX": "JaxMARL: both teams of SMAX, learning; option scenario.",
        **{f"overcooked-{layout}": f"JaxMARL: two cooks in {layout}." for layout in overcooked_layouts},
        **{f"overcooked_v2-{layout}": f"JaxMARL: Overcooked V2, {layout}." for layout in overcooked_v2_layouts},
        "hanabi": "JaxMARL: Hanabi, in turns.",
        "coin_game": "JaxMARL: the coin game, a social dilemma.",
        "switch_riddle": "JaxMARL: prisoners who share one switch.",
        "jaxnav": "JaxMARL: robots that drive by lidar.",
    }


def resolve(target: str, options: dict[str, Any]) -> tuple[Any, Family]:
    """Return the library's environment behind an id, and its family."""
    base, _, rest = target.partition("-")
    if base == "SMAX":
        if scenario := rest or options.pop("scenario", ""):
            if scenario not in MAP_NAME_TO_SCENARIO:
                raise ForageError(f"SMAX has no scenario {scenario}; it has {', '.join(MAP_NAME_TO_SCENARIO)}.")
            options["scenario"] = MAP_NAME_TO_SCENARIO[scenario]
        return jaxmarl.make("HeuristicEnemySMAX" if rest else "SMAX", **options), SMAX
    if base == "overcooked":
        return jaxmarl.make(base, layout=overcooked_layouts[rest], **options), Family(base, always_terminal)
    if base == "overcooked_v2":
        return jaxmarl.make(base, layout=rest, **options), Family(base, always_terminal)
    return jaxmarl.make(target, **options), OTHERS.get(target, MPE)


def check_options(name: str, env: Any, options: dict[str, Any]) -> None:
    """Raise `ForageError` for options that the library swallows without a word."""
    classes = [*type(env).__mro__, *(type(env._env).__mro__ if hasattr(env, "_env") else ())]
    known = {parameter for cls in classes for parameter in inspect.signature(cls.__init__).parameters}
    known = sorted(known - {"self", "args", "kwargs", "env_kwargs"})
    for option in options:
        if option not in known:
            raise foreign.unknown_option(name, option, known)
