"""Dyna's model by hand and against plain Python; a maze that is learned in fewer steps by imagining."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from small import at_once
from tiers import first

from forage.config.resolve import resolve
from forage.core.ports import ActContext
from forage.core.spaces import OneHot
from forage.core.types import AGENT, GONE, GUIDE, MODEL, NOBODY, Clock, Experience, ForageError, Spec
from forage.memory.uniform import UniformReplay
from forage_papers.memory.dyna import Dyna

SPEC = Spec("x", spaces.Discrete(3), spaces.Discrete(2))
KEY = jax.random.key(0)


def rollout(rows):
    """A rollout of one environment: observation, action, reward, next observation, terminated, truncated, source."""
    observation, action, reward, after, terminated, truncated, source = (
        np.array(x)[:, None] for x in zip(*rows, strict=True)
    )
    seen, after = observation.astype(np.int32), after.astype(np.int32)
    ends = (terminated.astype(bool), truncated.astype(bool))
    return Experience(
        seen, action.astype(np.int32), reward.astype(np.float32), after, *ends, source.astype(np.int32), ()
    )


def one_of(lived):
    return jax.tree.map(lambda x: np.zeros(x.shape[2:], x.dtype), lived)


def moment(steps, key=KEY):
    return ActContext(None, None, SPEC, Clock(jnp.int32(steps), jnp.float32(10_000)), key)  # type: ignore[arg-type]


HAND = [
    (0, 1, 0.0, 1, 0, 0, AGENT),
    (1, 0, 1.0, 2, 0, 1, AGENT),  # the clock ran out, so it goes on from 2
    (0, 1, 0.0, 0, 0, 0, AGENT),
    (0, 1, 0.5, 2, 0, 0, GUIDE),  # takes the place of the first, where two are kept
    (2, 1, 5.0, 2, 1, 0, AGENT),  # the end
    (1, 1, 7.0, 0, 0, 0, NOBODY),  # the action was not heard
    (2, 0, 9.0, 0, 1, 0, GONE),
]


@pytest.mark.parametrize("together", [True, False])
def test_the_table_by_hand(together):
    memory, lived = Dyna(70, outcomes=2), rollout(HAND)
    size = len(HAND) if together else 1
    state = at_once(lambda: memory.init(one_of(lived), 1, size, SPEC, None))
    add = jax.jit(memory.add)
    for i in range(0, len(HAND), size):
        part = jax.tree.map(lambda x, i=i: x[i : i + size], lived)
        state = add(state, part, Clock(jnp.int32(i), jnp.float32(100)))
    np.testing.assert_array_equal(state.table.visits, [[0, 3], [1, 0], [0, 1]])
    outcomes = state.table.outcomes
    np.testing.assert_array_equal(outcomes.next_observation[0, 1], [2, 0])
    np.testing.assert_array_equal(outcomes.reward[0, 1], [0.5, 0.0])
    np.testing.assert_array_equal(outcomes.reward[:, :, 0], [[0, 0.5], [1, 0], [0, 5]])
    np.testing.assert_array_equal(outcomes.terminated[:, :, 0], [[0, 0], [0, 0], [0, 1]])

    drawn = jax.device_get(jax.jit(lambda: memory.imagine(state.table, 6000, KEY))())
    assert drawn.terminated.shape == (1, 6000) and (drawn.source == MODEL).all() and not drawn.truncated.any()
    found = list(zip(*(x[0].tolist() for x in drawn[:5]), strict=True))
    share = {row: found.count(row) / 6000 for row in set(found)}
    # Pairs alike often, then outcomes alike often; the truncated one is not terminal.
    right = {
        (0, 1, 0.0, 0, False): 1 / 6,
        (0, 1, 0.5, 2, False): 1 / 6,
        (1, 0, 1.0, 2, False): 1 / 3,
        (2, 1, 5.0, 2, True): 1 / 3,
    }
    assert share.keys() == right.keys()
    assert all(abs(share[row] - right[row]) < 0.03 for row in right)


class Plain:
    """The model in plain Python: the last outcomes of each pair."""

    def __init__(self, outcomes):
        self.outcomes, self.table, self.visits = outcomes, {}, {}

    def add(self, observation, action, outcome):
        pair = (observation, action)
        kept = self.table.setdefault(pair, [])
        kept.append(outcome)
        del kept[: -self.outcomes]
        self.visits[pair] = self.visits.get(pair, 0) + 1


@pytest.mark.parametrize(
    ("outcomes", "num_envs", "length", "kind"),
    first(1, [(1, 1, 1, "number"), (1, 3, 4, "one-hot"), (3, 4, 6, "from 5"), (7, 2, 5, "number")]),
)
def test_the_table_is_that_of_plain_python(outcomes, num_envs, length, kind):
    """Imagined transitions were all visited; replayed and imagined ones have the right shares."""
    rng, rollouts, states, actions = np.random.default_rng(outcomes), 12, 5, 3
    space = {"number": spaces.Discrete(states), "one-hot": OneHot(states), "from 5": spaces.Discrete(states, start=5)}
    spec = Spec("x", space[kind], spaces.Discrete(actions))
    first = 5 if kind == "from 5" else 0
    shape = (rollouts * length, num_envs)
    seen, after = (rng.integers(states, size=shape) for _ in range(2))
    action, source = rng.integers(actions, size=shape), rng.choice([AGENT, GUIDE, NOBODY, GONE], size=shape)
    reward = np.arange(seen.size, dtype=np.float32).reshape(shape)  # each transition's own
    terminated = rng.uniform(size=shape) < 0.2
    truncated = ~terminated & (rng.uniform(size=shape) < 0.3)

    def show(number):
        return np.eye(states, dtype=np.float32)[number] if kind == "one-hot" else (number + first).astype(np.int32)

    ends = (terminated, truncated)
    lived = Experience(show(seen), action.astype(np.int32), reward, show(after), *ends, source.astype(np.int32), ())
    memory, plain = Dyna(40, planning=3.0, outcomes=outcomes), Plain(outcomes)
    state = at_once(lambda: memory.init(one_of(lived), num_envs, length, spec, None))
    add = jax.jit(memory.add)
    sample = jax.jit(lambda state, steps, key: memory.sample(state, 64, 1, moment(steps, key)))
    for i in range(rollouts):
        now = slice(i * length, (i + 1) * length)
        state = add(state, jax.tree.map(lambda x, now=now: x[now], lived), moment(i * length * num_envs).clock)
        for t in range(now.start, now.stop):
            for e in range(num_envs):
                if source[t, e] not in (NOBODY, GONE):
                    plain.add(seen[t, e], action[t, e], (reward[t, e], after[t, e], terminated[t, e]))
        visits, table = jax.device_get((state.table.visits, state.table.outcomes))
        for s in range(states):
            for a in range(actions):
                kept = plain.table.get((s, a), [])
                assert visits[s, a] == plain.visits.get((s, a), 0)
                after_there = table.next_observation[s, a, : len(kept)]
                number = after_there.argmax(-1) if kind == "one-hot" else after_there - first
                ends_there = table.terminated[s, a, : len(kept)]
                assert set(zip(table.reward[s, a, : len(kept)], number, ends_there, strict=True)) == set(kept)
        batch = jax.device_get(sample(state, (i + 1) * length * num_envs, jax.random.fold_in(KEY, i)))
        model = batch.experience.source[0] == MODEL
        assert (batch.index[model] == -1).all() and (batch.index[~model] >= 0).all()
        assert model.sum() == (48 if plain.table else 0)
        possible = {outcome[0] for kept in plain.table.values() for outcome in kept}
        assert set(batch.experience.reward[0][model]) <= possible
        for b in range(64):  # each is as it was lived through, but for its source and truncation
            t, e = np.argwhere(reward == batch.experience.reward[0, b])[0]
            one = jax.tree.map(lambda x, b=b: x[0, b], batch.experience)
            was = jax.tree.map(lambda x, t=t, e=e: x[t, e], lived)
            if model[b]:
                was = was._replace(source=np.int32(MODEL), truncated=np.bool_(False))
            jax.tree.map(np.testing.assert_array_equal, one, was)


def test_without_planning_or_model_it_is_uniform_replay():
    lived = rollout(HAND * 3)
    clock, count = moment(0).clock, len(HAND) * 3
    unheard = lived._replace(source=np.full_like(lived.source, NOBODY))
    uniform = UniformReplay(63)
    for memory, stream in ((Dyna(63, planning=0.0), lived), (Dyna(63), unheard)):

        def run_both(memory=memory, stream=stream):
            kept = memory.init(one_of(stream), 1, count, SPEC, None), uniform.init(one_of(stream), 1, count, SPEC, None)
            return [
                part.sample(part.add(state, stream, clock), 32, 1, moment(count))
                for part, state in zip((memory, uniform), kept, strict=True)
            ]  # fmt: skip

        one, two = jax.jit(run_both)()
        jax.tree.map(np.testing.assert_array_equal, one, two)


def test_shares_are_right_in_the_mean_for_small_batches():
    memory, lived = Dyna(70, planning=2.0), rollout(HAND)
    state = at_once(lambda: memory.init(one_of(lived), 1, len(HAND), SPEC, None))
    state = memory.add(state, lived, moment(0).clock)
    draw = lambda key: memory.sample(state, 2, 1, moment(len(HAND), key)).experience.source == MODEL  # noqa: E731
    model = jax.jit(jax.vmap(draw))(jax.random.split(KEY, 3000))
    assert abs(float(model.mean()) - 2 / 3) < 0.02 and set(np.unique(model.sum((1, 2)))) == {1, 2}


@pytest.mark.parametrize(
    ("agent", "environment", "options", "message"),
    [
        (
            "dqn",
            "CartPole-v1",
            {"n_step": 1},
            r"CartPole-v1 has observations in Box\(4,\) and .*FrozenLake-4, or",
        ),
        ("td3", "Pendulum-v1", {}, r"actions in Box\(1,\); take an environment with both"),
        ("dqn", "tabular:Chain-5", {}, "DQN learns from segments of 5; set its n_step to 1"),
        ("ppo", "tabular:Chain-5", {}, "PPO learns only from the rollout"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(agent, environment, options, message):
    setup = resolve(agent, environment, steps=2000, seeds=1, memory="dyna", agent_options=options)
    with pytest.raises(ForageError, match=message) as error:
        setup.loop()
    assert str(error.value).count(". ") == 0


def test_what_a_table_cannot_hold_is_refused():
    agent = resolve("dqn", "tabular:Chain-5", steps=100, seeds=1, agent_options={"n_step": 1}).agent
    Dyna().check(agent, SPEC, None)
    with pytest.raises(ForageError, match="up to 1,000,000 pairs of an observation and an action, and x has 2,000,000"):
        Dyna().check(agent, Spec("x", spaces.Discrete(1_000_000), spaces.Discrete(2)), None)
    with pytest.raises(ForageError, match="x has 2 agents that act at once"):
        Dyna().check(agent, Spec("x", spaces.Discrete(3), spaces.Discrete(2), num_agents=2), None)
    for options, message in (
        ({"planning": -1.0}, "planning of dyna is 0 or"),
        ({"outcomes": 0}, "outcomes of dyna is 1"),
    ):
        with pytest.raises(ForageError, match=message):
            resolve("dqn", "tabular:Chain-5", steps=100, seeds=1, memory=Dyna(**options))
