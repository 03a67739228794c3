"""Hindsight replay against a plain Python reimplementation; bit flipping, which only hindsight solves."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from small import at_once
from tiers import gate_cases

from forage.config.resolve import resolve
from forage.core.ports import ActContext
from forage.core.types import Clock, Experience, ForageError, Spec
from forage.environments import make
from forage.environments.classic.bit_flip import bit_flip
from forage.environments.classic.pendulum import Pendulum
from forage.environments.wrappers import ActionRepeat, TimeLimit
from forage.environments.wrappers.goal_entries import Entries
from forage.environments.wrappers.goals import GoalConditioned
from forage.environments.wrappers.randomness.reward import RewardNoise
from forage.memory.hindsight import Hindsight
from forage.memory.recorded import RecordedMemory
from forage.ops import ring
from forage.tasks.contexts import Contexts

BOX = spaces.Box(-9999, 9999, (2,), np.float32)
DICT = spaces.Dict({"observation": BOX, "achieved_goal": BOX, "desired_goal": BOX})
SPEC = Spec("x", DICT, spaces.Discrete(2))
KEY = jax.random.key(0)


def goals(on_success="end", radius=0.5, reward="penalty"):
    """Return an environment for its reward; its stored observations are artificial."""
    return GoalConditioned(
        Entries(Pendulum(), (0, 1), (-1.0, -1.0), (1.0, 1.0)), radius, reward, on_success, scale=jnp.array([1.0, 2.0])
    )


class Case(NamedTuple):
    strategy: str = "future"
    num_envs: int = 2
    rollout_length: int = 3
    capacity: int = 40
    length: int = 1  # of a segment
    episode: float = 4  # steps on average
    longest: int = 999
    on_success: str = "end"
    reward: str = "penalty"
    lost: tuple[int, ...] = ()  # rollouts after which the episodes under way are lost
    large: bool = False  # observations are kept as frames


CASES = {
    "future": Case(),
    "final": Case("final"),
    "episode": Case("episode"),
    "one step each": Case("episode", episode=1),
    "longer than the ring": Case("episode", episode=60, capacity=24),
    "future, longer than the ring": Case(episode=60, capacity=24),
    "final, longer than the ring": Case("final", episode=30, num_envs=3, capacity=24, rollout_length=4),
    "all lengths": Case("episode", episode=9, num_envs=1, rollout_length=1, capacity=17),
    "one rollout": Case("episode", rollout_length=8, capacity=16),
    "segments": Case(length=4, episode=3),
    "segments of the whole": Case("final", length=5, episode=5, on_success="stay", reward="distance"),
    "lost": Case("episode", lost=(0, 3, 4, 11), episode=8),
    "lost at once": Case("final", lost=tuple(range(30)), episode=30),
    "frames": Case("episode", large=True, episode=3, capacity=160),
}


def stream(case: Case, steps: int) -> Experience:
    """Return transitions with time and place, in whole numbers, as achieved goals; own goals are no whole numbers.

    Some of these are reached, and end episodes.
    """
    rng = np.random.default_rng(len(case.strategy) + steps)
    shape = (steps, case.num_envs)
    time, env = np.meshgrid(np.arange(steps), np.arange(case.num_envs), indexing="ij")
    achieved = np.stack([time, env], -1).astype(np.float32)
    desired = np.where(rng.uniform(size=(*shape, 1)) < 0.2, achieved + 0.25, achieved + 50.25).astype(np.float32)
    ended = rng.uniform(size=shape) < 1 / case.episode
    terminated = ended & (rng.uniform(size=shape) < 0.5)
    reward = goals(case.on_success, reward=case.reward).goal_reward
    if case.on_success == "end":
        terminated |= np.asarray(reward.is_reached(achieved, desired))
    before = achieved - np.array([1, 0], np.float32)
    seen = {"observation": before, "achieved_goal": before, "desired_goal": desired}
    after = {"observation": achieved, "achieved_goal": achieved, "desired_goal": desired}
    paid = np.asarray(reward.reward_of(achieved, desired), np.float32)
    zero = np.zeros(shape, np.int32)
    return Experience(seen, zero, paid, after, terminated, ended & ~terminated, zero, ())


class Plain:
    """A reimplementation of the memory, from the whole stream and without a ring."""

    def __init__(self, lived: Experience, lost: list[int], rows: int, case: Case):
        self.lived, self.rows, self.case = lived, rows, case
        self.ended = np.asarray(lived.terminated | lived.truncated)
        self.ended[lost] = True
        self.reward = goals(case.on_success, reward=case.reward).goal_reward

    def allow(self, time: int, env: int, newest: int) -> set[int]:
        """The steps that the goal of one transition can come from."""
        oldest = max(0, newest - self.rows)
        last = time
        while not self.ended[last, env] and last < newest - 1:
            last += 1
        first = time
        while first > oldest and not self.ended[first - 1, env]:
            first -= 1
        return set({"future": range(time, last + 1), "final": [last], "episode": range(first, last + 1)}[
            self.case.strategy
        ])  # fmt: skip

    def expectation(self, time: int, env: int, goal: np.ndarray) -> tuple[float, bool, bool]:
        """Reward, terminated and truncated of a transition with that goal."""
        achieved = np.asarray(self.lived.next_observation["achieved_goal"][time, env])
        old = np.asarray(self.lived.observation["desired_goal"][time, env])
        distance = lambda desired: np.sqrt((((achieved - desired) / np.array([1, 2])) ** 2).sum())  # noqa: E731
        reached = distance(goal) <= 0.5
        reward = -distance(goal) if self.case.reward == "distance" else float(reached) - 1
        ends = self.case.on_success == "end"
        own = bool(self.lived.terminated[time, env]) and not (ends and distance(old) <= 0.5)
        terminated = own or (ends and bool(reached))
        return reward, terminated, bool(self.ended[time, env]) and not terminated


@pytest.mark.parametrize("name", gate_cases(CASES, ("longer than the ring", "segments")))
def test_goals_are_those_of_a_plain_reimplementation(name, monkeypatch):
    case, rollouts = CASES[name], 24
    monkeypatch.setattr(ring, "LARGE", 8 if case.large else 1000)
    lived = stream(case, rollouts * case.rollout_length)
    example = jax.tree.map(lambda x: np.zeros(x.shape[2:], x.dtype), lived)
    memory, environment = Hindsight(case.capacity, case.strategy, 4.0), goals(case.on_success, reward=case.reward)
    state = at_once(lambda: memory.init(example, case.num_envs, case.rollout_length, SPEC, environment))
    rows, add = len(state.number), jax.jit(memory.add)
    sample = jax.jit(lambda state, clock, key: memory.sample(state, 64, case.length, moment(clock, key)))
    lost = [(i + 1) * case.rollout_length - 1 for i in case.lost]
    drawn: dict[Any, set[int]] = {}
    changed = 0
    for i in range(rollouts):
        rollout = jax.tree.map(lambda x, i=i: x[i * case.rollout_length : (i + 1) * case.rollout_length], lived)
        state = add(state, rollout, clock_at(i * case.rollout_length * case.num_envs))
        newest = (i + 1) * case.rollout_length
        clock = clock_at(newest * case.num_envs)
        if i in case.lost:
            state = jax.jit(memory.truncate)(state, clock)
        if newest < case.length:
            continue
        plain = Plain(lived, [step for step in lost if step < newest], rows, case)
        batch = jax.device_get(sample(state, clock, jax.random.fold_in(KEY, i)).experience)
        for b in range(64):
            begins = True
            for t in range(case.length):
                time, env = (int(x) for x in batch.next_observation["achieved_goal"][t, b])
                goal = batch.observation["desired_goal"][t, b]
                np.testing.assert_array_equal(goal, batch.next_observation["desired_goal"][t, b])
                np.testing.assert_array_equal(batch.observation["observation"][t, b], [time - 1, env])
                if begins:
                    shared, replaced, allowed = goal, goal[0] == round(goal[0]), plain.allow(time, env, newest)
                    if replaced:
                        drawn.setdefault((newest, time, env, tuple(sorted(allowed))), set()).add(int(goal[0]))
                if replaced:
                    assert int(goal[0]) in allowed and int(goal[1]) == env
                    np.testing.assert_array_equal(goal, shared)
                    reward, *ends = plain.expectation(time, env, goal)
                    changed += 1
                else:
                    np.testing.assert_array_equal(goal, lived.observation["desired_goal"][time, env])
                    reward, terminated = lived.reward[time, env], lived.terminated[time, env]
                    ends = [terminated, plain.ended[time, env] & ~terminated]
                np.testing.assert_allclose(batch.reward[t, b], reward, rtol=1e-5)
                assert [batch.terminated[t, b], batch.truncated[t, b]] == ends
                begins = plain.ended[time, env]
    assert changed > 200
    if case.length == 1 and case.strategy != "final":
        # Over all moments both ends of what is allowed are drawn.
        for end in (min, max):
            assert case.episode == 1 or any(end(key[3]) in found and len(key[3]) > 2 for key, found in drawn.items())


def clock_at(steps):
    return Clock(jnp.int32(steps), jnp.float32(10_000))


def moment(clock, key):
    return ActContext(None, None, SPEC, clock, key)  # type: ignore[arg-type]


@pytest.mark.parametrize("replay_k", gate_cases([0.0, 1.0, 4.0], [4.0]))
def test_so_many_goals_are_replaced_and_alike_often(replay_k):
    """In one episode of 12 steps, with the last 8 in the ring."""
    case = Case(num_envs=1, rollout_length=4, capacity=8, on_success="stay")
    lived = stream(case, 12)
    no = np.zeros((12, 1), bool)
    far = {"desired_goal": np.full((12, 1, 2), -5, np.float32)}
    lived = lived._replace(terminated=no, truncated=no, observation=lived.observation | far)
    example = jax.tree.map(lambda x: np.zeros(x.shape[2:], x.dtype), lived)
    memory = Hindsight(8, "future", replay_k)
    state = at_once(lambda: memory.init(example, 1, 4, SPEC, goals("stay")))
    for i in range(3):
        state = memory.add(state, jax.tree.map(lambda x, i=i: x[4 * i : 4 * i + 4], lived), clock_at(4 * i))
    batch = jax.device_get(jax.jit(lambda: memory.sample(state, 20_000, 1, moment(clock_at(12), KEY)))())
    goal = batch.experience.observation["desired_goal"][0, :, 0]
    share = (goal != -5).mean()
    assert abs(share - replay_k / (replay_k + 1)) < 0.015
    if replay_k:
        time = batch.experience.next_observation["achieved_goal"][0, :, 0]
        found = goal[(time == 8) & (goal != -5)]
        counts = np.array([(found == step).sum() for step in range(8, 12)])
        assert counts.sum() == len(found) and (abs(counts / len(found) - 0.25) < 0.05).all()


def test_adding_is_in_place_inside_a_compiled_loop():
    capacity, seeds = 20_000, 2
    memory = Hindsight(capacity)
    lived = stream(Case(num_envs=1), 1)
    example = jax.tree.map(lambda x: jnp.asarray(x[0, 0]), lived)
    state = jax.vmap(lambda _: memory.init(example, 1, 1, SPEC, goals()))(jnp.arange(seeds))

    def turn(i, carry):
        def one(state, total, key):
            state = memory.add(state, jax.tree.map(lambda x: x[None, None], example), clock_at(i))
            batch = memory.sample(state, 8, 1, moment(clock_at(i + 1), jax.random.fold_in(key, i)))
            return state, total + batch.experience.reward.sum()

        return jax.vmap(one)(*carry, jax.random.split(KEY, seeds))

    run = jax.jit(lambda state, n: jax.lax.fori_loop(0, n, turn, (state, jnp.zeros(seeds))), donate_argnums=0)
    compiled = run.lower(state, 60).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < capacity * seeds


@pytest.mark.parametrize(
    ("agent", "environment", "words", "message"),
    [
        ("dqn", "CartPole-v1", {}, r"CartPole-v1 has observations in Box\(4,\); maze:UMaze-Goal"),
        ("td3", "maze:UMaze", {}, r"and maze:UMaze has observations in Box\(6,\)"),
        ("dqn", "BitFlip-10", {"wrap": ["reward-noise:0.5"]}, "RewardNoise changes what a step of BitFlip-10 pays"),
        ("dqn", "BitFlip-10", {"wrap": ["action-repeat:2"]}, "ActionRepeat changes what a step of BitFlip-10 pays"),
        (
            "dqn",
            "BitFlip-10",
            {"tasks": Contexts(train=("radius=0.1:0.4",))},
            "which of the tasks that Contexts draws a",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(agent, environment, words, message):
    for memory in ("hindsight", RecordedMemory(Hindsight())):
        setup = resolve(agent, environment, steps=2000, seeds=1, memory=memory, **words)
        with pytest.raises(ForageError, match=message) as error:
            setup.loop()
        assert str(error.value).count(". ") == 0


def test_what_computes_no_reward_in_jax_is_refused():
    agent = resolve("dqn", "BitFlip-10", steps=100, seeds=1).agent
    with pytest.raises(ForageError, match=r"x on the host has no compute_reward.*; use --memory uniform there"):
        Hindsight().check(agent, SPEC, None)
    with pytest.raises(ForageError, match="no goal_reward that computes"):
        Hindsight().check(agent, SPEC, Pendulum())
    with pytest.raises(ForageError, match="one of future, final, episode, not 'past'"):
        Hindsight(strategy="past")
    with pytest.raises(ForageError, match="replay-k of hindsight is 0 or more"):
        resolve("dqn", "BitFlip-10", steps=100, seeds=1, memory=Hindsight(replay_k=-1.0))
    for kept in (TimeLimit(bit_flip(4), 3), bit_flip(4)):
        Hindsight().check(agent, Spec("x", kept.observation_space, kept.action_space), kept)
    for changed in (RewardNoise(TimeLimit(bit_flip(4), 3), 1.0), TimeLimit(ActionRepeat(bit_flip(4), 2), 3)):
        with pytest.raises(ForageError, match="changes what a step of x pays"):
            Hindsight().check(agent, Spec("x", changed.observation_space, changed.action_space), changed)


def test_bits_flip_until_they_are_as_asked():
    environment = make("BitFlip-10")
    assert environment.horizon == 10 and environment.action_space == spaces.Discrete(10)
    reset, step = jax.jit(environment.reset), jax.jit(environment.step)
    begun = jax.vmap(environment.reset)(jax.random.split(KEY, 500))[1]
    for name in ("achieved_goal", "desired_goal"):
        assert set(np.unique(begun[name])) == {0, 1} and (abs(begun[name].mean(0) - 0.5) < 0.1).all()
    assert abs(np.corrcoef(begun["achieved_goal"][:, 0], begun["desired_goal"][:, 0])[0, 1]) < 0.2
    rng = np.random.default_rng(0)
    lengths = set()
    for number in range(30):
        state, observation = reset(jax.random.fold_in(KEY, number))
        bits, goal = (np.array(observation[name]) for name in ("observation", "desired_goal"))
        for time in range(1, 11):
            wrong = np.flatnonzero(bits != goal)
            action = int(wrong[0]) if len(wrong) and number % 3 else int(rng.integers(10))
            bits[action] = 1 - bits[action]
            state, found = step(state, jnp.int32(action), KEY)
            done = (bits == goal).all()
            for name, value in {"observation": bits, "achieved_goal": bits, "desired_goal": goal}.items():
                np.testing.assert_array_equal(found.observation[name], value)
            assert float(found.reward) == (0 if done else -1) and bool(found.terminated) == done
            assert bool(found.truncated) == (time == 10 and not done) and bool(found.info["success"]) == done
            if done or time == 10:
                lengths.add(time)
                break
    assert len(lengths) > 3


@pytest.mark.parametrize("memory", ["hindsight", "uniform"])
@pytest.mark.thorough
def test_bits_are_flipped_as_asked_with_hindsight_and_not_without(memory):
    options = {"n_step": 1, "dueling": False, "hidden_sizes": (128,), "num_envs": 8, "updates_per_rollout": 8}
    options |= {"discount": 0.98, "learning_rate": 1e-3}
    setup = resolve("dqn", "BitFlip-20", steps=40_000, seeds=1, agent_options=options, memory=memory)
    runner = setup.runner()
    runner.begin()
    runner.advance(setup.steps // runner.steps_per_iteration)
    returns = runner.evaluate(100, 20, 0).returns
    assert returns.mean() > -13 if memory == "hindsight" else returns.mean() < -19
