"""One function for each contestant: `(id, num_envs, steps, way) -> (begin(key), advance(state, key))`, to be jitted.

Every contestant draws keys alike, one split for the action and the step, whether its step needs one or not.
`begin` makes all environments; `advance` takes `steps` steps of each with random actions and returns the state after
them, the last observation in it. With `way="episodes"` ended episodes begin anew, by the library's own automatic reset.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp

from forage.core.ports import ActInputs

Stepper = tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]


def over_time(one: Callable[[Any, Any], Any], num_envs: int, steps: int) -> Callable[[Any, Any], Any]:
    """`one(state, key)` of a single environment, for all of them and for many steps."""

    def advance(state: Any, key: Any) -> Any:
        def step(state: Any, key: Any) -> tuple[Any, None]:
            return jax.vmap(one)(state, jax.random.split(key, num_envs)), None

        return jax.lax.scan(step, state, jax.random.split(key, steps))[0]

    return advance


def all_of(begin: Callable[[Any], Any], num_envs: int) -> Callable[[Any], Any]:
    return lambda key: jax.vmap(begin)(jax.random.split(key, num_envs))


def forage(id: str, num_envs: int, steps: int, way: str) -> Stepper:
    from forage.behaviours.policy import AgentPolicy
    from forage.core import prng, spaces
    from forage.core.ports import Agent
    from forage.core.types import Clock
    from forage.environments import make, spec_of
    from forage.loop.device.loop import DeviceLoop
    from forage.loop.learner import Learner
    from forage.memory.rollout import LastRollout
    from forage.rewards.environment import EnvironmentReward
    from forage.starts.reset import Reset
    from forage.tasks.same import Same

    environment: Any = make(id)
    spec = spec_of(environment, id)

    class Random(Agent):
        on_policy: ClassVar[bool] = True
        num_envs: int = equinox.field(static=True, default=1)
        rollout_length: int = equinox.field(static=True, default=1)

        def check(self, spec: Any) -> None:
            pass

        def init(self, key: Any, spec: Any) -> Any:
            return ()

        def act(self, state: Any, inputs: ActInputs) -> Any:
            mask = spaces.split_mask(inputs.observation)[1]
            return spaces.sample(spec.action_space, inputs.key, mask), inputs.hidden, ()

        def learn(self, state: Any, batch: Any, clock: Any, key: Any) -> Any:
            return state, {}, jnp.zeros(1)

    if way == "bare":
        agents = environment.num_agents

        def begin(key: Any) -> Any:
            return environment.reset(key)

        def one(state: Any, key: Any) -> Any:
            act_key, step_key = jax.random.split(key)
            if agents == 1:
                action = spaces.sample(spec.action_space, act_key)
            else:
                action = jax.vmap(lambda k: spaces.sample(spec.action_space, k))(jax.random.split(act_key, agents))
            env_state, step = environment.step(state[0], action, step_key)
            return env_state, step.observation

        return all_of(begin, num_envs), over_time(one, num_envs, steps)

    learner = Learner(
        Random(num_envs=num_envs, rollout_length=steps), AgentPolicy(), EnvironmentReward(), LastRollout(), spec
    )
    loop = DeviceLoop(learner, environment, Same(), Reset())

    def start(key: Any) -> Any:
        return loop.init(prng.key(key[1]))._replace(learner=learner.init(prng.key(0))._replace(memory=()))

    def run(state: Any, key: Any) -> Any:
        clock = Clock(jnp.int32(0), jnp.float32(1))
        # What was collected is dropped, so that XLA leaves out storing it; the peers store nothing either.
        pool, actors, *_ = loop.collect(state, clock, prng.key(key[1]))
        return state._replace(pool=pool, actors=actors)

    return start, run


def gymnax(id: str, num_envs: int, steps: int, way: str) -> Stepper:
    import gymnax as library

    env, params = library.make(id)
    stepping = env.step if way == "episodes" else env.step_env

    def begin(key: Any) -> Any:
        observation, state = env.reset(key, params)
        return state, observation

    def one(state: Any, key: Any) -> Any:
        act_key, step_key = jax.random.split(key)
        action = env.action_space(params).sample(act_key)
        observation, state, *_ = stepping(step_key, state[0], action, params)
        return state, observation

    return all_of(begin, num_envs), over_time(one, num_envs, steps)


def craftax(id: str, num_envs: int, steps: int, way: str) -> Stepper:
    from craftax.craftax_env import make_craftax_env_from_name

    env = make_craftax_env_from_name(id, auto_reset=way == "episodes")
    params = env.default_params

    def begin(key: Any) -> Any:
        observation, state = env.reset(key, params)
        return state, observation

    def one(state: Any, key: Any) -> Any:
        act_key, step_key = jax.random.split(key)
        observation, state, *_ = env.step(step_key, state[0], env.action_space(params).sample(act_key), params)
        return state, observation

    return all_of(begin, num_envs), over_time(one, num_envs, steps)


def jumanji(id: str, num_envs: int, steps: int, way: str) -> Stepper:
    import jumanji as library

    env = library.make(id)

    def begin(key: Any) -> Any:
        state, timestep = env.reset(key)
        return state, timestep.observation

    def one(state: Any, key: Any) -> Any:
        act_key, _ = jax.random.split(key)
        action = jax.random.randint(act_key, env.action_spec.shape, 0, env.action_spec.num_values)
        after, timestep = env.step(state[0], action)
        return after, timestep.observation

    return all_of(begin, num_envs), over_time(one, num_envs, steps)


def jaxmarl(id: str, num_envs: int, steps: int, way: str) -> Stepper:
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        import jaxmarl as library
        from jaxmarl.environments.smax import map_name_to_scenario

        base, _, scenario = id.partition("-")
        if base == "SMAX":
            env = library.make("HeuristicEnemySMAX", scenario=map_name_to_scenario(scenario))
        else:
            env = library.make(id)
    stepping = env.step if way == "episodes" else env.step_env

    def begin(key: Any) -> Any:
        observation, state = env.reset(key)
        return state, observation

    def one(state: Any, key: Any) -> Any:
        act_key, step_key = jax.random.split(key)
        keys = jax.random.split(act_key, env.num_agents)
        action = {agent: env.action_space(agent).sample(keys[i]) for i, agent in enumerate(env.agents)}
        observation, state, *_ = stepping(step_key, state[0], action)
        return state, observation

    return all_of(begin, num_envs), over_time(one, num_envs, steps)


def brax(id: str, num_envs: int, steps: int, way: str) -> Stepper:
    from brax import envs

    env = envs.get_environment(id)

    def one(state: Any, key: Any) -> Any:
        act_key, _ = jax.random.split(key)
        return env.step(state, jax.random.uniform(act_key, (env.action_size,), minval=-1.0, maxval=1.0))

    return all_of(env.reset, num_envs), over_time(one, num_envs, steps)


def playground(id: str, num_envs: int, steps: int, way: str) -> Stepper:
    from mujoco_playground import registry

    config = registry.get_default_config(id)
    config.impl = "jax"  # the variant on Warp needs a GPU
    env = registry.load(id, config=config)

    def one(state: Any, key: Any) -> Any:
        act_key, _ = jax.random.split(key)
        return env.step(state, jax.random.uniform(act_key, (env.action_size,), minval=-1.0, maxval=1.0))

    return all_of(env.reset, num_envs), over_time(one, num_envs, steps)


def xland(id: str, num_envs: int, steps: int, way: str) -> Stepper:
    import xminigrid as library
    from xminigrid.wrappers import GymAutoResetWrapper

    env, params = library.make(id)
    if way == "episodes":
        env = GymAutoResetWrapper(env)

    def one(timestep: Any, key: Any) -> Any:
        act_key, _ = jax.random.split(key)
        return env.step(params, timestep, jax.random.randint(act_key, (), 0, env.num_actions(params)))

    return all_of(lambda key: env.reset(params, key), num_envs), over_time(one, num_envs, steps)


def navix(id: str, num_envs: int, steps: int, way: str) -> Stepper:
    import navix as library

    env = library.make(id)
    stepping = env.step if way == "episodes" else env._step

    def one(timestep: Any, key: Any) -> Any:
        act_key, _ = jax.random.split(key)
        return stepping(timestep, jax.random.randint(act_key, (), 0, env.action_space.n))

    return all_of(env.reset, num_envs), over_time(one, num_envs, steps)
