"""The value of a run's policy, from a log of another one: `forage estimate`."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import PyTree

from forage.core.types import ForageError
from forage.data import files, formats
from forage.data.logged import Transitions
from forage.evaluation.off_policy.encoding import Answer, PolicyActions
from forage.evaluation.off_policy.policy_value import PolicyValue
from forage.evaluation.off_policy.value import estimate_value
from forage.loop.policy import Policy
from forage.runs.run import read_json, write_json
from forage.studies.select import finite

FILE = "estimate.json"
DRAWS = 8
"""Actions drawn at each observation from a policy that plays with sampled actions."""


def answer_of(policy: Policy, draws: int = DRAWS) -> Answer:
    """Return a policy as a function from observations to actions: greedy ones, or ones drawn, as it is evaluated.

    Raise `ForageError` if an observation alone does not tell its action.
    """
    name = type(policy.agent).__name__
    if policy.spec.num_agents > 1:
        raise ForageError(f"A value is estimated for one agent, and {policy.spec.name} has {policy.spec.num_agents}.")
    if policy.remembers or policy.agent.return_conditioned or policy.agent.looks_ahead:
        why = "looks ahead in its environment" if policy.agent.looks_ahead else "remembers the episode so far"
        raise ForageError(
            f"{name} {why}, so that an observation alone does not tell its action; a value is estimated for agents "
            f"without memory, such as iql, cql, bc or td3-bc."
        )

    def answer(observation: PyTree[np.ndarray]) -> PolicyActions:
        space = policy.spec.action_space
        if policy.sampled and isinstance(space, gymnasium.spaces.Discrete) and space.n <= draws:
            table = np.asarray(policy.probabilities(observation, explore=True), np.float64)
            number = np.arange(table.shape[1]) + int(space.start)
            return PolicyActions(np.repeat(number[:, None], len(table), 1), table.T)
        policy.reset()
        found = np.stack([np.asarray(policy.act(observation)) for _ in range(draws if policy.sampled else 1)])
        return PolicyActions(found, np.full(found.shape[:2], 1 / len(found)))

    return answer


def estimate_run(
    run: str | os.PathLike[str],
    file: str | os.PathLike[str],
    discount: float | None = None,
    confidence: float = 0.95,
    seed: int | None = None,
    checkpoint: str | int | None = None,
    write: bool = True,
) -> PolicyValue:
    """Estimate the value of a run's policy from a data set, and write it to estimate.json of the run.

    `discount`: by default the agent's. `seed`: the trained agent, by default the best one in evaluation.
    """
    from forage.config.saved import load_policy

    policy = load_policy(run, seed, checkpoint=checkpoint)
    answer = answer_of(policy)
    path = Path(file)
    memory = read_json(Path(run) / "config.json").get("memory")
    data, header = formats.read_data(path, policy.spec, formats.description_for(path, memory))
    files.check_data_spaces(path, header, policy.spec)
    found = estimate_policy(policy, answer, data, discount, confidence)
    digest = formats.data_hash(path)
    if {digest, formats.data_hash(path, described=False)} & hashes_in(memory):
        found = dataclasses.replace(found, warnings=(*found.warnings, LEARNED))
    if write:
        about = {"data": path.name, "sha256": digest, "member": policy.member}
        write_json(Path(run) / FILE, about | finite(found.data()))
    return found


LEARNED = (
    "the policy learned from this log, and prefers what went well in it by chance; episodes that it has not seen would "
    "tell without that bias."
)


def hashes_in(config: Any) -> set[str]:
    """Return the hashes of all data sets that a memory's configuration names."""
    if isinstance(config, dict):
        own = {config["sha256"]} if isinstance(config.get("sha256"), str) else set()
        return own.union(*map(hashes_in, config.values()))
    return set().union(*map(hashes_in, config)) if isinstance(config, list) else set()


def estimate_policy(
    policy: Policy, answer: Answer, data: Transitions, discount: float | None = None, confidence: float = 0.95
) -> PolicyValue:
    """Estimate the value of a policy from transitions; `discount` is by default the agent's."""
    given = getattr(policy.agent, "discount", None) if discount is None else discount
    return estimate_value(data, answer, policy.spec.action_space, 0.99 if given is None else float(given), confidence)
