"""Groups of episodes that share a start."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small

from forage.config.ranges import check_ranges
from forage.config.resolve import resolve
from forage.core.types import Clock, ForageError
from forage.environments.text.environment import TextEnvironment
from forage.loop.host.starts import HostStarts
from forage.starts.groups import Groups

small.keep_compiled()
OPTIONS: dict[str, Any] = {"num_envs": 6, "rollout_length": 10, "hidden_sizes": (8,), "baseline": "group"}


def test_all_of_a_group_begin_alike_and_no_others_do():
    setup = resolve(
        "reinforce",
        "CartPole-v1",
        steps=1000,
        seeds=[0],
        agent_options=OPTIONS,
        starts=Groups(4),
        wrap=["time-limit:9"],
    )
    runner: Any = setup.runner()
    runner.begin()
    look = jax.jit(setup.loop().next_rollout)
    starts: dict[int, list[tuple[float, ...]]] = {}
    for _ in range(5):
        clock = Clock(jnp.int32(runner.steps), jnp.float32(1000))
        rollout = jax.device_get(look(jax.tree.map(lambda x: x[0], runner.state), clock))
        first = np.concatenate([np.ones((1, 6), bool), rollout.ended[:-1]])
        for time, env in np.argwhere(first):
            seen = tuple(rollout.observation[time, env].tolist())
            starts.setdefault(int(rollout.start_id.group[time, env]), []).append(seen)
        runner.advance(1)
    assert len(starts) > 8
    assert all(len(set(seen)) == 1 for seen in starts.values())
    assert len({seen[0] for seen in starts.values()}) == len(starts)
    full = [len(starts[group]) for group in sorted(starts)[:-3]]  # the newest may still be filled
    assert set(full) == {4}


def test_other_seeds_have_other_groups():
    begun = []
    for seed in (0, 1):
        setup = resolve("reinforce", "CartPole-v1", seeds=[seed], agent_options=OPTIONS | {"rollout_length": 500})
        starts = Groups(2)
        state = starts.init(jax.random.key(seed), setup.environment, setup.spec, 6)
        begun.append(starts.begin(state, setup.environment, jax.random.key(9), jnp.int32(5))[1].tolist())
    assert begun[0] != begun[1]


def test_what_cannot_be_is_refused():
    with pytest.raises(ForageError, match="size of it is 1 or more"):
        check_ranges(Groups(0), "it")
    with pytest.raises(ForageError, match="does not begin alike"):
        resolve(
            "reinforce",
            "gymnasium:CartPole-v1",
            agent_options=OPTIONS | {"rollout_length": 500},
            starts=Groups(4),
        ).runner()
    setup = resolve("reinforce", "language:Reverse-2", agent_options=OPTIONS)
    with pytest.raises(ForageError, match="--starts groups"):
        setup.runner().begin()
        setup.runner().advance(1)


def test_a_group_goes_on_from_its_best():
    environment = TextEnvironment("addition", 6, level=1, tools="calculator", roles=True, turns=4)
    starts = HostStarts(Groups(3, onward="best"), environment, environment.spec, seed=0)
    seen = starts.first(environment.reset(0))
    zeros = np.zeros(6, int)
    call, nothing = seen["reference"].copy(), np.zeros_like(seen["reference"])
    nothing[:, 0] = environment.ends + 1
    best = np.array([False, True, False, False, False, True])
    result = environment.step(np.where(best[:, None], call, nothing))
    own = result.observation["context"]
    after = starts.after_step(result, zeros).observation["context"]
    assert (after == own[[1, 1, 1, 5, 5, 5]]).all() and (own[0] != own[1]).any()
    # Where the best answered, and agreed with what was called, the whole group is over
    result = environment.step(np.where(best[:, None], result.observation["reference"][[1, 1, 1, 5, 5, 5]], nothing))
    assert not starts.after_step(result, zeros).observation["context"].any()
    for _ in range(2):
        result = environment.step(nothing)
        starts.after_step(result, zeros)
    assert result.step.terminated.all() and result.step.info["truth"].tolist() == [1] * 6
    environment.close()


def test_native_episodes_do_not_go_on_from_others():
    with pytest.raises(ForageError, match="on the host alone"):
        resolve("ppo", "CartPole-v1", steps=1000, seeds=[0], starts=Groups(2, onward="best")).runner()
    with pytest.raises(ForageError, match="own, best"):
        Groups(2, onward="worst")
