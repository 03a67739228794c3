"""Texts for claims about agents of language: written by the base model or by a family's own expert."""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Any

import jax
import numpy as np

from forage.config.resolve import resolve
from forage.core import prng
from forage.core.ports import Environment
from forage.data import files
from forage.data.logged import Transitions
from forage.loop.policy import Policy
from forage.studies.claims.played import FOLDER
from forage.studies.record import play_steps


@functools.cache
def write_texts(environment: str, options: str, steps: int, temperature: float | None = None, seed: int = 0) -> str:
    """Return the file of texts by the base model or an expert; write it if it is missing.

    `options` of the environment, as JSON. At a `temperature` it is the base model; without one, the family's own
    expert.
    """
    told = f"{environment} {options} {steps} {temperature} {seed}"
    file = FOLDER / f"text-{hashlib.sha256(told.encode()).hexdigest()[:8]}.npz"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        agent = {"temperature": 1.0 if temperature is None else temperature}
        setup = resolve("grpo", environment, seeds=1, agent_options=agent, environment_options=json.loads(options))
        assert not isinstance(setup.environment, Environment)
        batch = setup.environment(64)
        try:
            if temperature is None:
                found = expert(batch, steps, seed)
            else:
                learner = setup.learner()
                policy = Policy(learner.agent, learner.agent.init(prng.key(seed), setup.spec), setup.spec, True)
                found, _ = play_steps(policy, batch, steps, 0.0, seed)
        finally:
            batch.close()
        files.write_data(file, found, {"spec": setup.config()["spec"]})
    return str(file)


def expert(batch: Any, steps: int, seed: int) -> Transitions:
    """Return the texts of the family's own expert, one conversation after another."""
    observation, rows = batch.reset(seed), []
    for _ in range(-(-steps // batch.num_envs)):
        result = batch.step(observation["reference"])
        step = result.step
        fields = (observation, observation["reference"], step.reward, step.observation, step.terminated, step.truncated)
        rows.append(jax.tree.map(np.array, fields))
        observation = result.observation
    return Transitions(*jax.tree.map(lambda *x: np.stack(x, 1).reshape(-1, *x[0].shape[1:]), *rows))
