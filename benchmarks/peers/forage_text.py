"""Forage: GRPO of a tiny Llama with random weights, or generation alone."""

from __future__ import annotations

import common

from forage.core.ports import ActInputs

ROW, SETTINGS = common.arguments()
common.keep_to(SETTINGS["cores"])

import time  # noqa: E402 (XLA counts the cores when it is imported)
from typing import Any  # noqa: E402

import jax  # noqa: E402
import numpy as np  # noqa: E402

from forage.agents.language.base import LanguageState  # noqa: E402
from forage.agents.language.grpo import GRPO  # noqa: E402
from forage.config.resolve import resolve  # noqa: E402
from forage.config.run_config import RunConfig  # noqa: E402
from forage.nn.language.architecture import Architecture  # noqa: E402
from forage.nn.transformer import Transformer  # noqa: E402

SECONDS_IMPORT = common.seconds_since_start()
PACKAGES = ("forage-rl", "jax", "equinox", "optax")


class Endless(GRPO):
    """GRPO whose answers never end before there is no more room, so that each is as long."""

    def init(self, key: Any, spec: Any) -> LanguageState:
        state = super().init(key, spec)
        return state._replace(known=state.known.at[state.end].set(False))


def build(settings: dict[str, Any]) -> RunConfig:
    """All parts; the environment asks for sums and pays for right ones, which random weights do not give."""
    sizes = settings["model"]
    architecture = Architecture(**sizes, key_heads=sizes["heads"], tied=True)
    agent = Endless(
        model=Transformer(jax.random.key(settings["seed"]), architecture),
        num_envs=settings["prompts"] * settings["group"],
        group_size=settings["group"],
        learning_rate=settings["learning_rate"],
    )
    steps = (settings["updates"] + 1) * agent.num_envs
    options = {"context": settings["prompt_tokens"], "response": settings["new_tokens"]}
    return resolve(agent, "text:addition", environment_options=options, steps=steps, seeds=[settings["seed"]])


def step(settings: dict[str, Any]) -> tuple[float, float, float]:
    """Train; returns seconds and core-seconds of all updates but the first, and the mean of the rewards."""
    runner = build(settings).runner()
    runner.begin()
    runner.advance(1)
    began = time.perf_counter(), time.process_time()
    report = runner.advance(settings["updates"])
    seconds, core_seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    return seconds, core_seconds, float(np.mean(report.metrics["reward"]))


def generate(settings: dict[str, Any]) -> tuple[float, float, float]:
    """Generate as training does; returns seconds and core-seconds of all calls but the first."""
    setup = build(settings)
    learner = setup.learner()
    agent, state = learner.agent, learner.agent.init(jax.random.key(0), learner.spec)
    seen = setup.environment(agent.num_envs).reset(settings["seed"])
    write = jax.jit(
        lambda seen, keys: jax.vmap(lambda o, key: agent.act(state, ActInputs((), o, key, True))[0])(seen, keys)
    )
    for number in range(settings["updates"] + 1):
        if number == 1:
            began = time.perf_counter(), time.process_time()
        jax.block_until_ready(write(seen, jax.random.split(jax.random.key(number), agent.num_envs)))
    return time.perf_counter() - began[0], time.process_time() - began[1], 0.0


def main() -> None:
    seconds, core_seconds, reward = {"step": step, "generate": generate}[SETTINGS["part"]](SETTINGS)
    tokens = SETTINGS["updates"] * SETTINGS["prompts"] * SETTINGS["group"] * SETTINGS["new_tokens"]
    common.report(
        seconds_import=SECONDS_IMPORT,
        seconds_compile=None,
        seconds_steady=seconds,
        core_seconds=core_seconds,
        seconds_outside=0.0,
        steps=tokens,
        updates=SETTINGS["updates"],
        total_steps=tokens,
        final_return=[reward],
        packages=PACKAGES,
    )


if __name__ == "__main__":
    main()
