"""The check that the parts of a run fit the environment and each other, with one sentence for each misfit."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from forage.core import ports
from forage.core.ports import Agent, Behaviour, Environment, Memory, Part, Rewards, Starts, Tasks
from forage.core.ports.checking import check_agent, check_needs, has_memory
from forage.core.schedule import moments, with_plain_numbers
from forage.core.types import BONUS, Experience, ForageError, Spec

if TYPE_CHECKING:
    from forage.loop.learner import Learner

RENAMES = {
    "acted": "observe_action",
    "due": "num_updates",
    "hears_rewards": "return_conditioned",
    "heed": "on_step",
    "heeds": "follows_steps",
    "held_back": "waiting_rollouts",
    "hidden": "init_hidden",
    "joined": "source_environments",
    "judge": "estimate",
    "judged": "needs_estimates",
    "kept": "stored_observation",
    "looks_at_data": "needs_whole_dataset",
    "marks": "needs_start_ids",
    "measured": "intervention_metrics",
    "moved": "relocate",
    "note": "example_info",
    "opened": "load",
    "paid": "observe_reward",
    "place": "map_position",
    "places": "map_shape",
    "primed": "init_from_dataset",
    "renew": "reset_networks",
    "rest": "after_updates",
    "sealed": "with_hashes",
    "stored": "translate_options",
    "streams": "reward_heads reward_names",
    "turn": "advance",
}
"""Methods and class variables of ports by their former names, with the names of today."""


HINTS = {
    "loss": "the last argument is a random key (docs/how-to/change-a-loss.md).",
    "act": "inputs.observation, inputs.hidden, inputs.key, inputs.explore, inputs.noise and inputs.world are fields of "
    "forage.core.ports.ActInputs.",
}
"""The end of the sentence about an agent's method that does not accept the loop's arguments."""


def check_names(*parts: Part) -> None:
    """Raise `ForageError` if a part defines a method of its port by a former name, which is never called."""
    for part in parts:
        classes = type(part).__mro__
        names = {name for cls in classes if cls.__module__.startswith(ports.__name__) for name in vars(cls)}
        for cls in classes:
            for former in sorted(RENAMES.keys() & vars(cls).keys()):
                kind = str(vars(cls).get("__annotations__", {}).get(former, "ClassVar"))
                today = [name for name in RENAMES[former].split() if name in names]
                if today and "ClassVar" in kind:  # and neither an option nor a method of the part's own
                    raise ForageError(f"{cls.__name__} defines {former}, which is called {today[0]} now; rename it.")


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


def check_learner(learner: Learner, environment: Environment | None) -> None:
    """Raise `ForageError` if a learner's parts do not fit the environment and each other.

    `environment`: `None` if it is on the host.
    """
    plain = with_plain_numbers(learner)
    agent, behaviour, rewards, memory, spec = plain.agent, plain.behaviour, plain.rewards, plain.memory, plain.spec
    check_names(agent, behaviour, rewards, memory)
    check_signatures(agent, **agent.signatures)
    check_signatures(behaviour, act="state, hidden, observation, moment", report="state, rollout, moment")
    for part in layers(rewards):
        check_needs(part, spec, agent, environment)
    rewards.check(spec)
    check_agent(agent, spec)
    check_rewards(agent, rewards, spec)
    check_world(agent, rewards, spec, environment)
    for part in layers(behaviour):
        check_needs(part, spec, agent, environment)
    behaviour.check(agent, spec)
    check_data(agent, behaviour, rewards, memory, spec)
    for part in layers(memory):
        check_needs(part, spec, agent, environment)
        check_group(agent, part, "memory")
    memory.check(agent, spec, environment)
    if agent.joint and spec.num_agents > 1 and not memory.joint:
        raise ForageError(
            f"{type(agent).__name__} learns from transitions of a whole team, and "
            f"{type(memory).__name__} keeps those of single agents; use --memory uniform or prioritised."
        )
    check_judge(agent, memory)


def check_starts(agent: Agent, spec: Spec, environment: Environment, tasks: Tasks, starts: Starts) -> None:
    """Raise `ForageError` if episodes cannot begin as these parts say, at any moment of their schedules."""
    for part in (tasks, starts):
        check_names(part)
        check_signatures(part, report="state, rollout, review")
        check_judge(agent, part)
    for now, begin in moments((tasks, starts)):
        check_needs(now, spec, environment=environment)
        now.check(environment)
        check_needs(begin, spec, environment=environment, tasks=now)
        begin.check(environment, now)


def layers(part: Any) -> Iterator[Part]:
    """Yield a part and those within it at the same port, from outside in."""
    while isinstance(part, Part):
        yield part
        part = getattr(part, "inner", None)


def check_rewards(agent: Agent, rewards: Rewards, spec: Spec) -> None:
    """Raise `ForageError` if rewards, or those within them, need an agent or an environment of another kind."""
    who, outer = type(agent).__name__, rewards
    for part in layers(rewards):
        assert isinstance(part, Rewards)
        if part.asks and not outer.asks:
            raise ForageError(
                f"{type(part).__name__} asks the agent how probable its actions are, and {type(outer).__name__} "
                f"around it does not pass that on; use it by itself."
            )
        if part.ends and has_memory(agent, spec):
            raise ForageError(
                f"{type(part).__name__} ends what is learned from where the game goes on, and this {who} remembers the "
                f"game from before; use --rewards scale, or an agent without memory."
            )
        check_group(agent, part, "rewards")
        outer = part
    if rewards.asks and (not agent.stochastic or has_memory(agent, spec)):
        raise ForageError(
            f"{type(rewards).__name__} asks how probable actions are, which {who} here cannot say; use an agent that "
            f"draws its actions and has no memory, such as ppo, sac or sac-discrete."
        )
    given = rewards.reward_names(spec)
    if BONUS in given:
        raise ForageError(
            f"{spec.name} calls a reward {BONUS}, which is the name of what is paid for exploring; give it another."
        )
    if missing := [name for name in agent.reward_heads if name not in (BONUS, *given)]:
        there = f"the rewards {', '.join(given)}" if given else "one reward alone"
        raise ForageError(
            f"{who} learns from a reward called {missing[0]} apart from the rest, and {spec.name} has {there}; take an "
            f"environment with several rewards, and have the agent name one of them."
        )


def check_data(agent: Agent, behaviour: Behaviour, rewards: Rewards, memory: Memory, spec: Spec) -> None:
    """Raise `ForageError` for an agent that learns from data if there are none, or none of the kind that it needs."""
    who, source = type(agent).__name__, type(memory).__name__
    if agent.offline and agent.fine_tunes and not (memory.offline or memory.mixes):
        raise ForageError(
            f"{who} learns from a data set, and {source} keeps what a run experiences alone; name a file with --data "
            f"FILE, or go on online from such a run with --memory mixed --memory.data FILE."
        )
    if agent.offline and agent.texts and not memory.offline:
        raise ForageError(f"{who} learns from recorded text alone; name a file with --data FILE, such as pairs.jsonl.")
    if agent.offline and not (memory.offline or (behaviour.labels and agent.imitates) or agent.fine_tunes):
        raise ForageError(
            f"{who} learns from a data set alone, and {source} keeps what a run experiences; name a file of "
            f"transitions with --data FILE (forage data record writes one)."
        )
    if not (memory.transitions is None or isinstance(memory.transitions, Experience)) and agent.needs_whole_dataset:
        raise ForageError(
            f"{who} looks at the whole data set before it learns, and a folder of arrays is never in memory as a "
            f"whole; forage data convert FOLDER FILE.npz makes one file of it."
        )
    if not agent.return_conditioned:
        return
    if not memory.offline:
        raise ForageError(f"{who} learns from a data set alone; name a file of transitions with --data FILE.")
    if not rewards.as_given:
        raise ForageError(
            f"{who} counts the environment's own rewards while it acts, and {type(rewards).__name__} makes others of "
            f"them to learn from; use --rewards environment."
        )
    if spec.num_agents > 1 or spec.reward_names:
        raise ForageError(f"{who} counts one reward of one agent, and {spec.name} has several; ppo learns there.")


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


def check_group(agent: Agent, part: Any, port: str) -> None:
    """Raise `ForageError` if a part compares other groups of episodes than the agent does."""
    if part.group not in (1, agent.group):
        has = f"groups of {agent.group}" if agent.group > 1 else "none"
        raise ForageError(
            f"{type(part).__name__} compares {part.group} episodes with one beginning, and {type(agent).__name__} has "
            f"{has}; use an agent of groups such as grpo, and give the {port} its group_size."
        )


def check_judge(agent: Agent, part: Any) -> None:
    """Raise `ForageError` if a part needs the agent's estimates and the agent gives none."""
    if part.needs_estimates and not agent.has_estimates:
        raise ForageError(
            f"{type(part).__name__} needs an agent with value estimates of its rollouts (`estimate`), and "
            f"{type(agent).__name__} has none; ppo does."
        )
