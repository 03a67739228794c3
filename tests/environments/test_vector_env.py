"""A user's VectorEnv against the same environments one by one."""

from pathlib import Path

import gymnasium
import jax
import numpy as np
import pytest
import vector_faults
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from vector_faults import BOX, FAULTS, LENGTH, Sound, fault, observe

import forage
from forage.config.environment import resolve_environment
from forage.core.host import HostEnvironment, HostStep
from forage.core.types import ForageError, Step
from forage.environments.adapters.gymnasium.batch import Layout
from forage.environments.adapters.gymnasium.calls import GuardedEnvironment
from forage.environments.adapters.gymnasium.environment import GymnasiumEnvironment
from forage.environments.registry import HostFactory
from forage.loop.cluster.pool import Pool


class Counter(gymnasium.Env):
    """Shows its time, as two parts; terminates or truncates after a number of steps given by its seed."""

    observation_space = gymnasium.spaces.Dict(
        {"at": gymnasium.spaces.Box(0, 20, (2,), np.float32), "odd": gymnasium.spaces.Discrete(2)}
    )
    action_space = gymnasium.spaces.Discrete(3, start=5)
    metadata = {"render_modes": []}

    def observe(self):
        return {"at": np.array([self.at, self.last], np.float32), "odd": self.at % 2}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.last = 0, int(self.np_random.integers(2, 6))
        return self.observe(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.at += 1
        over = self.at == self.last
        return self.observe(), float(action), over and self.last % 2 == 0, over and self.last % 2 == 1, {}


def make_one(mode):
    """Return the environment of a function that takes a number."""
    many = lambda n: SyncVectorEnv([Counter] * n, autoreset_mode=mode)  # noqa: E731
    return resolve_environment(many, {})[1]


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_every_step_is_as_one_by_one(mode):
    ours, single = make_one(mode)(4), GymnasiumEnvironment(Counter, 4)
    jax.tree.map(np.testing.assert_array_equal, ours.reset(3), single.reset(3))
    ends = 0
    for step in range(40):
        action = np.random.default_rng(step).integers(0, 3, 4)
        found, wanted = ours.step(action), single.step(action)
        jax.tree.map(np.testing.assert_array_equal, found, wanted)
        ends += int((found.step.terminated | found.step.truncated).sum())
    assert ends > 20 and found.step.truncated.dtype == bool
    ours.close()


def test_what_was_shown_stays_as_it_was():
    envs = make_one(AutoresetMode.SAME_STEP)(2)
    first = jax.tree.map(np.copy, shown := envs.reset(0))
    envs.step(np.zeros(2, int))
    jax.tree.map(np.testing.assert_array_equal, shown, first)


@pytest.mark.thorough
def test_it_trains_and_is_scored(tmp_path):
    many = lambda n: SyncVectorEnv([Counter] * n, autoreset_mode="SameStep")  # noqa: E731
    given = {"num_envs": 4, "rollout_length": 16, "minibatches": 2, "epochs": 1, "hidden_sizes": (8,)}
    run = forage.train("ppo", many, steps=128, seeds=[0], directory=tmp_path / "run", display="quiet", **given)
    assert 2 * 5 <= run.score.value <= 5 * 7


@pytest.mark.parametrize(
    ("many", "said"),
    [
        (lambda n: SyncVectorEnv([Counter] * n), r"begins a new episode in the step after one ended .*; SameStep and"),
        (
            lambda n: SyncVectorEnv([Counter] * 3, autoreset_mode="SameStep"),
            "made 3 environments where 1 were asked",
        ),
    ],
)
def test_what_cannot_be_trained_in(many, said):
    with pytest.raises(ForageError, match=said):
        resolve_environment(many, {})[1](1)


def batch_of(cls, num_envs=2):
    return resolve_environment(cls, {})[1](num_envs)


def play(envs, steps=12):
    """The results of some steps with actions that are drawn from the space."""
    envs.reset(0)
    envs.action_space.seed(0)
    for _ in range(steps):
        envs.step(np.stack([envs.action_space.sample() for _ in range(envs.num_envs)]))


@pytest.mark.parametrize(("cls", "said"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_refused_in_one_sentence_and_found_by_the_check(cls, said):
    with pytest.raises(ForageError, match=said):
        play(batch_of(cls))
    checked = forage.check(cls, steps=20)
    assert not checked.ok and len(checked.wrong) <= 2, checked


@pytest.mark.parametrize(
    ("cls", "topic", "said"),
    [
        (observe(lambda self, x: x * np.float32([3, 1])), "observation", "above its bound 9"),
        (fault(step=lambda self, a: (*Sound.step(self, a)[:3], np.zeros(2, bool), {})), "episodes", "none has ended"),
        (observe(lambda self, x: x + np.random.uniform(size=x.shape).astype(np.float32)), "seed", "draw every random"),
        (
            fault(times=[0], pay=lambda self, a: self.times.append(0) or np.full(2, float(len(self.times)))),
            "determinism",
            "",
        ),
    ],
)
def test_the_check_finds_what_a_run_cannot_refuse(cls, topic, said):
    wrong = {one.topic: one.text for one in forage.check(cls, steps=20).wrong}
    assert set(wrong) == {topic} and said in wrong[topic]


def test_a_class_a_function_and_its_name_are_taken_alike(tmp_path):
    source = Path(vector_faults.__file__)
    (tmp_path / "mine.py").write_text(source.read_text() + "\n\ndef many(num_envs=3):\n    return Sound(num_envs)\n")
    for given in (Sound, f"{tmp_path}/mine.py:Sound", f"{tmp_path}/mine.py:many", lambda n: Sound(n)):
        envs = resolve_environment(given, {})[1](4)
        assert (envs.num_envs, envs.action_space) == (4, spaces.Discrete(2))
        play(envs)
        checked = forage.check(given, steps=20)
        assert checked.ok and {one.topic for one in checked.findings} >= {"copies", "determinism"}
    made = resolve_environment(Sound, {"bonus": 2.0, "info": "x"})[1](1)
    assert (made._envs.bonus, made.info_names) == (2.0, ("x",))
    with pytest.raises(ForageError, match="has no option 'bonu'"):
        resolve_environment(Sound, {"bonu": 2.0})[1](1)
    with pytest.raises(ForageError, match="is made without num_envs"):
        resolve_environment(fault(__init__=lambda self: None), {})[1](1)


@pytest.mark.parametrize(
    ("space", "action", "wanted"),
    [
        (spaces.Box(-1, 1, (2,), np.float64), [[0.5, 2], [0, -0.5]], np.array([[0.5, 1], [0, -0.5]])),
        (spaces.Discrete(3, start=5), [2, 0], np.array([7, 5])),
        (spaces.MultiDiscrete([2, 3], start=[0, 4]), [[1, 2], [0, 1]], np.array([[1, 6], [0, 5]])),
        (spaces.Box(2, 12, (2,), np.int16), [[0, 10], [3, 4]], np.array([[2, 12], [5, 6]], np.int16)),
        (spaces.Box(0, 10**6, (1,), np.int64), [[2.6], [1e7]], np.array([[3], [10**6]])),
        (
            spaces.Dict({"a": spaces.Discrete(2), "b": spaces.MultiBinary(2)}),
            [[1, 0, 1], [0, 1, 1]],
            {"a": np.array([1, 0]), "b": np.array([[0, 1], [1, 1]], np.int8)},
        ),
        (
            spaces.Tuple((spaces.Box(-1, 1, (1,)), spaces.Box(0, 9999, (), np.int32))),
            [[0.5, 7.4], [-3, 8.6]],
            (np.array([[0.5], [-1]], np.float32), np.array([7, 9], np.int32)),
        ),
    ],
)
def test_actions_arrive_as_arrays_of_the_space(space, action, wanted):
    envs = batch_of(fault(single_action_space=space, pay=lambda self, actions: np.zeros(2)))
    envs.reset(0)
    envs.step(
        np.array(
            action, np.int32 if isinstance(envs.action_space, spaces.MultiDiscrete | spaces.Discrete) else np.float32
        )
    )
    found = envs._envs.actions
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(one, other)
        assert isinstance(one, np.ndarray) and one.dtype == other.dtype
    assert envs._envs.action_space.contains(found)


@pytest.mark.parametrize("space", [spaces.Box(0, 2**63 - 2, (1,), np.int64), spaces.Box(-(2**31), 5, (2,), np.int32)])
def test_whole_numbers_without_bounds_are_no_actions(space):
    with pytest.raises(ForageError, match="whole numbers without bounds; give them bounds"):
        batch_of(fault(single_action_space=space))


class Words(Sound):
    """Parts that count from elsewhere, a tuple and a text, a mask in the infos and numbers there."""

    single_observation_space = spaces.Tuple((spaces.Discrete(9, start=3), spaces.Text(2, charset="ab"), BOX))

    def see(self):
        return self.time + 3, tuple("ab"[: int(time) % 3] for time in self.time), super().see()

    def infos(self):
        allowed = np.stack([self.time % 2, np.ones(self.num_envs)], 1).astype(np.int8)
        return {"action_mask": allowed, "spent": self.time * 10.0}


def test_parts_masks_and_infos_are_read_as_of_a_single_environment():
    envs = resolve_environment(Words, {"info": "spent"})[1](2)
    shown = envs.reset(0)
    assert shown["observation"]["0"].tolist() == [0, 0] and shown["action_mask"].tolist() == [[0, 1]] * 2
    for time in range(1, LENGTH + 1):
        step, following = envs.step(np.ones(2, int))
        observe = step.observation["observation"]
        assert (observe["0"].tolist(), observe["2"][:, 0].tolist()) == ([time] * 2, [time] * 2)
        assert observe["1"].tolist() == [[1, 2][: time % 3] + [0] * (2 - time % 3)] * 2
        assert step.observation["action_mask"][0].tolist() == [time % 2, 1]
        assert step.info["spent"].tolist() == [10 * time] * 2  # of the step, not of the reset after it
    assert step.truncated.all() and following["observation"]["0"].tolist() == [0, 0]
    assert following["action_mask"].tolist() == [[0, 1]] * 2 and forage.check(Words, steps=20).ok


class Reuses(Sound):
    """Reuses all its arrays and dictionaries, even in a reset; it is reset on request."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}

    def __init__(self, num_envs=2):
        super().__init__(num_envs)
        self.seen, self.paid, self.said = np.zeros((num_envs, 2), np.float32), np.zeros(num_envs, np.float32), {}
        self.flags = np.zeros((2, num_envs), bool)

    def reset(self, *, seed=None, options=None):
        if options:
            self.time[options["reset_mask"]] = 0
            self.flags[:] = False
            self.paid[:] = -1
        else:
            super().reset(seed=seed)
        return self.show(), self.tell()

    def tell(self):
        self.said["at"] = self.time * 1.0
        return self.said

    def show(self):
        self.seen[:, 0] = self.time
        return self.seen

    def step(self, actions):
        self.time += 1
        self.paid[:] = self.time
        self.flags[1] = self.time >= LENGTH
        return self.show(), self.paid, *self.flags, self.tell()


class ReusesOne(gymnasium.Env):
    """The same, one alone."""

    observation_space = spaces.Dict({"at": spaces.Box(-9, 9, (1,), np.float32)})
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.seen, self.said = self.__dict__.setdefault("held", ({"at": np.zeros(1, np.float32)}, {}))
        self.time = 0
        return self.show()

    def show(self):
        self.seen["at"][:], self.said["at"] = self.time, np.float64(self.time)
        return self.seen, self.said

    def step(self, action):
        self.time += 1
        observe, said = self.show()
        return observe, float(self.time), False, self.time >= LENGTH, said


REUSED = {
    "vector": lambda: resolve_environment(Reuses, {"info": "at"})[1](2),
    "serially": lambda: GymnasiumEnvironment(ReusesOne, 2, info="at"),
    "sync": lambda: resolve_environment(
        lambda n: SyncVectorEnv([ReusesOne] * n, autoreset_mode="SameStep"), {"info": "at"}
    )[1](2),
    "told": lambda: resolve_environment(
        lambda n: SyncVectorEnv([ReusesOne] * n, autoreset_mode="Disabled", copy=False), {"info": "at"}
    )[1](2),
    "processes": lambda: GymnasiumEnvironment(ReusesOne, 2, info="at", parallel=True),
    "workers": lambda: Pool(HostFactory("x", {"info": "at"}, ReusesOne).build, 2, 2),
    "delayed": lambda: GymnasiumEnvironment(ReusesOne, 2, info="at", around=[("delay", {"observation_delay": 0})]),
}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.thorough if kind in ("processes", "workers") else ()) for kind in REUSED],
)
def test_arrays_and_infos_that_are_reused_stay_as_they_were(kind):
    """Observation, reward and infos of a step are those before the reset, and no earlier result changes."""
    envs = REUSED[kind]()
    kept = [(jax.tree.leaves(envs.reset(0))[0], 0)]
    for time in range(1, 2 * LENGTH + 1):
        step, following = envs.step(np.zeros(2, int))
        at = (time - 1) % LENGTH + 1
        kept.append((jax.tree.leaves(step.observation)[0], at))
        kept.append((jax.tree.leaves(following)[0], at % LENGTH))
        kept.append((step.reward[:, None], at))
        kept.append((step.truncated[:, None], at == LENGTH))
        kept.append((step.info["at"][:, None], at))
    for found, wanted in kept:
        assert (found[:, 0] == wanted).all(), (kind, found, wanted)
    envs.close()


def test_a_process_sends_what_was_before_the_reset():
    env = GuardedEnvironment(ReusesOne(), (), Layout("x", ReusesOne.observation_space, 1), 0)
    env.reset()
    for _ in range(LENGTH):
        observe, _, _, over, said = env.step(0)
    assert over and env.reset()[0]["at"] == 0
    assert (observe["at"], said["at"]) == (LENGTH, LENGTH)


def test_stacked_and_delayed_observations_are_those_of_their_own_times():
    class Row(ReusesOne):
        observation_space = ReusesOne.observation_space["at"]

        def show(self):
            observe, said = super().show()
            return observe["at"], said

    around = [("delay", {"observation_delay": 1}), ("frame-stack", {"frames": 3})]
    envs = GymnasiumEnvironment(Row, 1, around=around)
    rows = [envs.reset(0)[0].tolist()] + [envs.step(np.zeros(1, int)).step.observation[0].tolist() for _ in range(4)]
    assert rows == [[0, 0, 0], [0, 0, 0], [0, 0, 1], [0, 1, 2], [1, 2, 3]]


class OwnBatch(HostEnvironment):
    """A person's own batch that writes to the same arrays."""

    def __init__(self, num_envs):
        super().__init__("mine", BOX, spaces.Discrete(2), num_envs)
        self.seen, self.paid, self.no = (
            np.zeros((num_envs, 2), np.float32),
            np.zeros(num_envs, np.float32),
            np.zeros(num_envs, bool),
        )

    def _reset(self, seed):
        self.seen[:] = 0
        return self.seen

    def _receive(self, action):
        self.seen += 1
        self.paid += 1
        return HostStep(Step(self.seen, self.paid, self.no, self.no, {}), self.seen)


def test_a_batch_of_ones_own_may_write_to_the_same_arrays():
    envs = OwnBatch(2)
    first, one, two = envs.reset(0), envs.step(np.zeros(2, int)), envs.step(np.zeros(2, int))
    assert [first[0, 0], one.step.observation[0, 0], two.observation[0, 0]] == [0, 1, 2]
    assert (one.step.reward[0], two.step.reward[0]) == (1, 2) and two.observation is two.step.observation
