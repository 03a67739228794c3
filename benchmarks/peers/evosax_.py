"""evosax: evolution strategies in JAX, whose members play in gymnax's environments; all generations in one program.

Every member plays its environment's whole horizon, also where an episode ends before, and all these steps count.
"""

from __future__ import annotations

import time
from typing import Any

import common
import jax
import jax.numpy as jnp
import optax
from evosax.algorithms import Open_ES
from evosax.problems import GymnaxProblem
from evosax.problems.networks import MLP

SECONDS_IMPORT = common.seconds_since_start()


def main() -> None:
    _, settings = common.arguments()
    if settings["algorithm"] != "open-es" or settings["num_seeds"] > 1 or settings["simulator"] != "jax":
        raise SystemExit("This script runs OpenES for one seed, in gymnax's environments.")
    if settings["activation"] != "tanh":
        raise SystemExit("evosax's networks have tanh between layers; give this row activation='tanh'.")

    def greedy(x: Any, key: Any = None) -> Any:
        return jnp.argmax(x, -1)

    sizes = (*settings["hidden"], 2)
    policy = MLP(layer_sizes=sizes, output_fn=greedy)
    problem = GymnaxProblem(settings["environment"], policy, num_rollouts=1, use_normalize_obs=False)
    key = jax.random.key(settings["seed"])
    solution = policy.init(key, jnp.zeros(problem.observation_shape), key)
    members = settings["population"]
    strategy = Open_ES(
        members,
        solution,
        optimizer=optax.adam(settings["learning_rate"]),
        std_schedule=optax.constant_schedule(settings["sigma"]),
    )
    params, told = strategy.default_params, problem.init(key)
    each = members * problem.episode_length
    generations = settings["steps"] // each

    def generation(carry: Any, key: Any) -> tuple[Any, Any]:
        ask_key, eval_key, tell_key = jax.random.split(key, 3)
        population, state = strategy.ask(ask_key, carry, params)
        fitness, _, _ = problem.eval(eval_key, population, told)
        state, _ = strategy.tell(tell_key, population, -fitness, state, params)  # it makes fitness small
        return state, fitness.mean()

    @jax.jit
    def train(key: Any) -> Any:
        state = strategy.init(key, solution, params)
        return jax.lax.scan(generation, state, jax.random.split(key, generations))

    began = time.perf_counter()
    compiled = train.lower(key).compile()
    ready = time.perf_counter()
    if settings["phase"] == "steady":
        jax.block_until_ready(compiled(jax.random.key(settings["seed"] + 1)))
    start = time.perf_counter()
    state, _ = jax.block_until_ready(compiled(key))
    ended = time.perf_counter()

    mean = jax.tree.map(lambda x: x[None], strategy.get_mean(state))
    keys = jax.random.split(jax.random.key(settings["seed"] + 10_000), settings["evaluation_episodes"])
    returns = [float(problem.eval(one, mean, told)[0][0]) for one in keys]
    common.report(
        seconds_import=SECONDS_IMPORT,
        seconds_compile=ready - began,
        seconds_steady=ended - start,
        seconds_outside=start - ready + time.perf_counter() - ended,
        steps=generations * each,
        updates=generations,
        total_steps=generations * each,
        final_return=[sum(returns) / len(returns)],
        packages=("evosax", "gymnax", "jax", "flax", "optax"),
    )


if __name__ == "__main__":
    main()
