"""The check of an environment, from its name or object to the list of findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium

from forage.config import registry
from forage.config.defaults import suggest, usual_parts
from forage.config.environment import many_environments, resolve_environment
from forage.core.errors import ForageError
from forage.core.ports import Environment, Evolver
from forage.core.schedule import with_plain_numbers
from forage.core.types import Spec
from forage.loop.learner import Learner
from forage.studies.check.findings import NOTE, OK, WRONG, CheckReport, Finding
from forage.studies.check.host import look_at_batch, look_at_single, look_at_vector
from forage.studies.check.native import look_at_native


def check(
    environment: Any,
    *,
    steps: int = 1000,
    seed: int = 0,
    environment_options: Mapping[str, Any] | None = None,
    wrap: Sequence[str] = (),
) -> CheckReport:
    """Play an environment with random actions, and return the findings.

    `environment` is any that `forage.train` takes (an id, a class, a function that makes one, a native environment),
    and also one `gymnasium.Env` or `VectorEnv`. `steps` of it are played, for a few seconds at most in each way.

    Raise `ForageError` for an object that is no environment, or cannot be made.
    """
    if steps < 1:
        raise ForageError(f"A check plays 1 step or more, not {steps}.")
    if not 0 <= seed < 2**31:
        raise ForageError(f"A seed is a whole number from 0 to {2**31 - 1:,}, not {seed}.")
    if isinstance(environment, gymnasium.Env | gymnasium.vector.VectorEnv):
        return check_object(environment, steps, seed, environment_options or {}, wrap)
    name, made, _ = resolve_environment(environment, dict(environment_options or {}), wrap)
    if isinstance(made, Environment):
        played, findings, speed = look_at_native(name, made, steps, seed)
        if any(one.verdict == WRONG and one.topic in ("contract", "spaces") for one in findings):
            return CheckReport(name, played, tuple(findings), {}, speed)
        spec = Spec(
            name,
            made.observation_space,
            made.action_space,
            made.reward_names,
            made.num_agents,
            made.horizon,
            made.info_names,
        )
    else:
        batch = made(1)
        try:
            spec = batch.spec
            if not hasattr(batch, "one"):  # another library's, or a person's own
                batch.close()
                batch = made(2)
            if hasattr(batch, "one"):
                played, findings, speed = look_at_single(batch, steps, seed)
            else:
                played, findings, speed = look_at_batch(batch, steps, seed, lambda: made(2))
        finally:
            batch.close()
    found, agents = which_agents(spec, made)
    return CheckReport(name, played, (*findings, found), agents, speed)


def check_object(
    environment: Any, steps: int, seed: int, options: Mapping[str, Any], wrap: Sequence[str]
) -> CheckReport:
    """Check one environment, or one batch, that is made already."""
    name = type(environment.unwrapped).__name__
    if options or wrap:
        raise ForageError(f"This {name} is made already; give its id or class, and options and wrappers beside it.")
    played, findings, speed, spec = look_at_vector(name, environment, steps, seed)
    if isinstance(environment, gymnasium.vector.VectorEnv):
        findings = [*findings, Finding(NOTE, "training", many_environments(environment))]
    found, agents = which_agents(spec, None)
    return CheckReport(name, played, (*findings, found), agents, speed)


def which_agents(spec: Spec, environment: Environment | Any) -> tuple[Finding, dict[str, str]]:
    """Return the agents that can learn in an environment, and for the others the reason why not."""
    native = isinstance(environment, Environment)
    answers: dict[str, str] = {}
    for name in registry.parts("agent"):
        agent = with_plain_numbers(registry.part_class("agent", name)())
        parts = usual_parts(agent)
        try:
            if isinstance(agent, Evolver) and not native:
                raise ForageError(f"{name} plays whole populations in one program; {spec.name} runs on the host.")
            learner = Learner(agent, parts["behaviour"], parts["rewards"], parts["memory"], spec)
            learner.check(environment if native else None)
            answers[name] = ""
        except ForageError as error:
            answers[name] = str(error)
    can = [name for name, why in answers.items() if not why]
    if not can:
        return Finding(WRONG, "agents", f"none can learn it: {answers['ppo']}"), answers
    first, why = suggest(spec, native)
    if first not in can:
        return Finding(OK, "agents", f"{', '.join(can)} can learn it"), answers
    return Finding(OK, "agents", f"{', '.join(can)} can learn it; without a word {first}: {why}"), answers
