"""The floating-point operations of a step of a run.

XLA's own analysis counts the body of a loop once, however often it is run, so they are counted in JAX's trace. Only
matrix products and convolutions count, as for the machine's peak.
"""

from __future__ import annotations

import math
from typing import Any

import jax

from forage.core import prng
from forage.core.types import Clock
from forage.loop.learner import Learner


def flops_per_step(learner: Learner, start_id: Any = ()) -> float:
    """Count the operations of acting and learning for each step of one environment, after learning has started.

    `start_id` has the shapes of an `Experience.start_id`, for an agent that uses them.
    """
    agent, agents = learner.agent, learner.spec.num_agents
    envs, time = agent.num_envs, agent.rollout_length
    key, clock = prng.key(0), Clock(jax.numpy.int32(0), jax.numpy.float32(1))
    state = jax.eval_shape(lambda start_id: learner.init(key, start_id=start_id), start_id)
    example = jax.eval_shape(lambda *parts: learner.example(*parts), state.agent, state.behaviour, start_id)
    axes = () if agents == 1 else (agents,)
    rollout = jax.tree.map(lambda x: jax.ShapeDtypeStruct((time, envs, *axes, *x.shape), x.dtype), example)
    observation = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), rollout.observation)
    hidden = jax.eval_shape(learner.init_hidden)
    hidden = jax.tree.map(lambda x: jax.ShapeDtypeStruct((envs, *x.shape), x.dtype), hidden)

    def act(state: Any, hidden: Any, observation: Any) -> Any:
        keys = jax.random.split(key, envs)
        return jax.vmap(learner.act, in_axes=(None, 0, 0, None, 0, 0))(
            state, hidden, observation, clock, keys, jax.numpy.arange(envs)
        )

    acting = count(jax.make_jaxpr(act)(state, hidden, observation).jaxpr)
    learning = jax.make_jaxpr(lambda state, rollout: learner.learn(state, rollout, clock, key))(state, rollout)
    return (time * acting + count(learning.jaxpr, agent.updates_per_rollout)) / (time * envs)


def count(jaxpr: Any, turns: int = 1) -> float:
    """Count the operations of one evaluation of `jaxpr`. A loop with an unknown number of turns counts `turns`."""
    total = 0.0
    for equation in jaxpr.eqns:
        name, params = equation.primitive.name, equation.params
        if name == "dot_general":
            (contracted, _), _ = params["dimension_numbers"]
            inner = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
            total += 2.0 * math.prod(equation.outvars[0].aval.shape) * inner
        elif name == "conv_general_dilated":
            kernel = equation.invars[1].aval.shape
            each = math.prod(kernel) / kernel[params["dimension_numbers"].rhs_spec[0]]
            total += 2.0 * math.prod(equation.outvars[0].aval.shape) * each
        elif name == "while":
            total += turns * count(params["body_jaxpr"].jaxpr)
        else:
            found = [count(inner, turns) for inner in inside(params)]
            if name == "cond":
                total += max(found)
            else:
                total += (params["length"] if name == "scan" else 1) * sum(found)
    return total


def inside(params: dict[str, Any]) -> list[Any]:
    """Return the programs within an operation."""
    values = [x for value in params.values() for x in (value if isinstance(value, (tuple, list)) else (value,))]
    return [getattr(x, "jaxpr", x) for x in values if hasattr(x, "jaxpr") or hasattr(x, "eqns")]
