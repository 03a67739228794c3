"""Checks of the combination of parts: one sentence for each combination that cannot work."""

from __future__ import annotations

import inspect
from typing import Any

import jax

from forage.core.ports import Agent, Behaviour, Environment, Memory, Part, Rewards
from forage.core.types import BONUS, Experience, ForageError, Spec

RENAMES = {
    "acted": "observe_action",
    "hidden": "init_hidden",
    "joined": "source_environments",
    "kept": "stored_observation",
    "measured": "intervention_metrics",
    "moved": "relocate",
    "opened": "load",
    "paid": "observe_reward",
    "stored": "translate_options",
    "heed": "on_step",
    "heeds": "follows_steps",
    "hears_rewards": "return_conditioned",
    "looks_at_data": "needs_whole_dataset",
    "primed": "init_from_dataset",
    "renew": "reset_networks",
    "sealed": "with_hashes",
}
"""Methods and class variables of ports by their former names, with today's."""


HINTS = {
    "act": "inputs.observation, inputs.hidden, inputs.key, inputs.explore, inputs.noise and inputs.world are fields of "
    "forage.core.ports.ActInputs."
}
"""The end of the sentence about an agent's method that does not accept the loop's arguments."""


def check_names(*parts: Part) -> None:
    """Raise `ForageError` if a part defines a method of its port by a former name, which is never called."""
    for cls in {cls for part in parts for cls in type(part).__mro__}:
        for former in sorted(RENAMES.keys() & vars(cls).keys()):
            kind = str(cls.__annotations__.get(former, "ClassVar")) if "__annotations__" in vars(cls) else "ClassVar"
            if "ClassVar" in kind:  # and no option of the part
                raise ForageError(f"{cls.__name__} defines {former}, which is called {RENAMES[former]} now; rename it.")


def check_signatures(part: Part, **methods: str) -> None:
    """Raise `ForageError` for a part whose methods, by name, do not accept the loop's arguments."""
    for name, given in methods.items():
        signature = inspect.signature(getattr(part, name))
        try:
            signature.bind(*given.split(", "))
        except TypeError:
            first = next(cls for cls in reversed(type(part).__mro__) if name in vars(cls))
            more = HINTS.get(name) if isinstance(part, Agent) else None
            raise ForageError(
                f"{type(part).__name__}.{name} takes ({', '.join(signature.parameters)}), and is called with "
                f"({given}); {more or f'see {first.__module__}.{first.__name__}.'}"
            ) from None


def check_source(agent: Agent, behaviour: Behaviour, memory: Memory) -> None:
    """Raise `ForageError` for an agent that learns from a data set alone without one, nor an expert's labels."""
    if agent.offline and agent.fine_tunes and not (memory.offline or memory.mixes):
        name = type(agent).__name__
        raise ForageError(
            f"{name} learns from a data set, and {type(memory).__name__} keeps what a run experiences alone; name a "
            f"file with --data FILE, or go on online from such a run with --memory mixed --memory.data FILE."
        )
    taught = (behaviour.labels and agent.imitates) or agent.fine_tunes
    if agent.offline and not memory.offline and not taught:
        raise ForageError(
            f"{type(agent).__name__} learns from a data set alone, and {type(memory).__name__} keeps what a run "
            f"experiences; name a file of transitions with --data FILE (forage data record writes one)."
        )


def check_primed(agent: Agent, memory: Memory) -> None:
    """Raise `ForageError` for an agent that looks at a whole data set first, of which not all is in memory."""
    whole = memory.transitions is None or isinstance(memory.transitions, Experience)  # none: nothing is learned
    if agent.needs_whole_dataset and not whole:
        raise ForageError(
            f"{type(agent).__name__} looks at the whole data set before it learns, and a folder of arrays is never in "
            f"memory as a whole; forage data convert FOLDER FILE.npz makes one file of it."
        )


def check_paid(agent: Agent, rewards: Rewards, memory: Memory, spec: Spec) -> None:
    """Raise `ForageError` if a return-conditioned agent would condition on rewards other than those it learns from."""
    if not agent.return_conditioned:
        return
    who = type(agent).__name__
    if not memory.offline:
        raise ForageError(f"{who} learns from a data set alone; name a file of transitions with --data FILE.")
    if not rewards.as_given:
        raise ForageError(
            f"{who} counts the environment's own rewards while it acts, and {type(rewards).__name__} makes others of "
            f"them to learn from; use --rewards environment."
        )
    if spec.num_agents > 1 or spec.reward_names:
        raise ForageError(f"{who} counts one reward of one agent, and {spec.name} has several; ppo learns there.")


def check_asked(agent: Agent, rewards: Rewards, spec: Spec) -> None:
    """Raise `ForageError` if rewards need the probability of actions and the agent cannot compute it."""
    around = rewards
    while isinstance(inner := getattr(around, "inner", None), Rewards):
        if inner.asks and not around.asks:
            raise ForageError(
                f"{type(inner).__name__} asks the agent how probable its actions are, and {type(around).__name__} "
                f"around it does not pass that on; use it by itself."
            )
        around = inner
    if not rewards.asks:
        return
    if not agent.stochastic or jax.tree.leaves(jax.eval_shape(lambda: agent.init_hidden(spec))):
        raise ForageError(
            f"{type(rewards).__name__} asks how probable actions are, which {type(agent).__name__} here cannot say; "
            f"use an agent that draws its actions and has no memory, such as ppo, sac or sac-discrete."
        )


def check_streams(agent: Agent, rewards: Rewards, spec: Spec) -> None:
    """Raise `ForageError` if an agent takes a stream of reward that there is not, or a name has two meanings."""
    given, who = rewards.streams(spec), type(agent).__name__
    if BONUS in given:
        raise ForageError(
            f"{spec.name} calls a reward {BONUS}, which is the name of what is paid for exploring; give it another."
        )
    for name in agent.streams:
        if name != BONUS and name not in given:
            there = f"the rewards {', '.join(given)}" if given else "one reward alone"
            raise ForageError(
                f"{who} learns from a reward called {name} apart from the rest, and {spec.name} has {there}; take an "
                f"environment with several rewards, and have the agent name one of them."
            )


def check_world(agent: Agent, rewards: Rewards, spec: Spec, environment: Environment | None) -> None:
    """Raise `ForageError` if an agent that looks ahead has no world to look ahead in, or sees other rewards there.

    `environment`: `None` if it is on the host.
    """
    if not agent.looks_ahead:
        return
    who = type(agent).__name__
    if environment is None:
        raise ForageError(
            f"{who} looks ahead in the environment's own state, and {spec.name} runs on the host, where that is not a "
            f"value; use a native environment such as CartPole-v1."
        )
    if spec.num_agents > 1:
        raise ForageError(
            f"{who} looks ahead for one agent, and {spec.name} has {spec.num_agents}, whose actions it does not know "
            f"beforehand; ppo learns there."
        )
    if not rewards.as_given:
        raise ForageError(
            f"{who} looks ahead at the environment's own rewards, and {type(rewards).__name__} makes others of them to "
            f"learn from; use --rewards environment."
        )


def check_ends(agent: Agent, rewards: Rewards, spec: Spec) -> None:
    """Raise `ForageError` if rewards end episodes early that an agent with memory still remembers."""
    part: Any = rewards
    while part is not None:
        if part.ends and jax.tree.leaves(agent.init_hidden(spec)):
            raise ForageError(
                f"{type(part).__name__} ends what is learned from where the game goes on, and this "
                f"{type(agent).__name__} remembers the game from before; use --rewards scale, or an agent without "
                f"memory."
            )
        part = getattr(part, "inner", None)


def check_team(agent: Agent, memory: Memory, spec: Spec) -> None:
    """Raise `ForageError` if an agent learns from whole teams, and the memory keeps single agents."""
    if agent.joint and spec.num_agents > 1 and not memory.joint:
        raise ForageError(
            f"{type(agent).__name__} learns from transitions of a whole team, and "
            f"{type(memory).__name__} keeps those of single agents; use --memory uniform or prioritised."
        )


def check_group(agent: Agent, part: Any, port: str) -> None:
    """Raise `ForageError` if a part, or one within it, compares other groups of episodes than the agent does."""
    while part is not None:
        if part.group not in (1, agent.group):
            has = f"groups of {agent.group}" if agent.group > 1 else "none"
            raise ForageError(
                f"{type(part).__name__} compares {part.group} episodes with one beginning, and {type(agent).__name__} "
                f"has {has}; use an agent of groups such as grpo, and give the {port} its group_size."
            )
        part = getattr(part, "inner", None)


def check_judge(agent: Agent, part: Any) -> None:
    """Raise `ForageError` if a part needs the agent's judgement and the agent gives none."""
    if part.judged and not agent.has_estimates:
        raise ForageError(
            f"{type(part).__name__} needs an agent that judges its rollouts (Agent.judge), and "
            f"{type(agent).__name__} does not; ppo does."
        )
