"""Tasks on the host: the numbered problem of each episode, its report, and resuming."""

import json
from typing import Any, ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_numbered as core
from test_numbered import model
from tiers import repeat

import forage
from forage.agents.language.grpo import GRPO
from forage.config.resolve import resolve
from forage.core.host import HostEnvironment, HostStep
from forage.core.ports import RolloutReport, RolloutStates
from forage.core.types import GONE, Clock, Experience, ForageError, Step
from forage.loop.host.starts import HostedEnvironment, HostStarts, TasksState
from forage.starts.groups import Groups
from forage.starts.reset import Reset
from forage_papers.starts.archive import Archive
from forage_papers.tasks.dars import DARS
from forage_papers.tasks.numbered import NumberedProblems, rollout_outcomes, task
from forage_papers.tasks.rising import levels

SPACE = gymnasium.spaces.Box(0, 100, (1,), np.float32)


class Exam(HostEnvironment):
    """Problem i has observation i and the right action 1; episodes of environment 0 take `slow` steps."""

    def __init__(self, num_envs: int, count: int = 6, slow: int = 2):
        super().__init__("Exam", SPACE, gymnasium.spaces.Discrete(2), num_envs)
        self.count, self.at, self.age = count, np.zeros(num_envs, np.float32), np.zeros(num_envs, int)
        self.begun: list[tuple[int, float]] = []
        self.slow = slow

    @property
    def seeded(self) -> bool:
        return True

    @property
    def num_starts(self) -> int:
        return self.count

    @property
    def difficulty(self) -> np.ndarray:
        return np.arange(self.count, dtype=np.float32) / self.count

    @property
    def hints(self) -> float:
        return 0.5

    def observe(self) -> np.ndarray:
        return self.at[:, None].copy()

    def _reset(self, seed: int) -> np.ndarray:
        self.at[:], self.age[:] = 99, 0
        return self.observe()

    def _begin(self, index: int, seed: int, number: int | None, hint: float) -> np.ndarray:
        assert number is not None
        self.at[index], self.age[index] = number, 0
        self.begun.append((number, hint))
        return self.observe()[index]

    def _receive(self, action: Any) -> HostStep:
        self.age += 1
        over = self.age >= np.where(np.arange(self.num_envs) == 0, self.slow, 1)
        reward = np.where(over, np.asarray(action), 0).astype(np.float32)
        led = self.observe()
        self.at[over], self.age[over] = 99, 0
        return HostStep(Step(led, reward, over, np.zeros(self.num_envs, bool), {}), self.observe())  # type: ignore[arg-type]


class InOrder(NumberedProblems):
    """The problems by number, beginning with one more than were answered so far; with hints."""

    def first(self, environment: Any) -> Any:
        return jnp.float32(0), jnp.zeros(environment.num_starts), jnp.zeros(environment.num_starts)

    def update_state(self, own: Any, heard: Any, environment: Any) -> Any:
        return own[0] + heard.answers.sum(), heard.answers, heard.right

    def rank(self, own: Any, key: Any, environment: Any) -> Any:
        return (jnp.arange(environment.num_starts) - own[0]) % environment.num_starts

    def hint(self, own: Any, number: Any) -> Any:
        return number / 20


def play(starts: HostStarts, environment: Exam, rollouts: int, length: int, action: Any = 1) -> list[Any]:
    """Step through rollouts, and return the observations before each step, `time env` each."""
    observation, found = starts.first(environment.reset(0)), []
    age = np.zeros(environment.num_envs, int)
    for number in range(rollouts):
        now: Any = np.int32(number * length * environment.num_envs), np.float32(99)
        clock = Clock(*now)
        steps, seen, fresh = [], [], age == 0
        for time in range(length):
            actions = np.full(environment.num_envs, action)
            result = starts.after_step(environment.step(actions), age, last=time == length - 1)
            over = result.step.terminated
            age = np.where(over, 0, age + 1)
            seen.append(observation[:, 0])
            step: Any = result.step
            nothing: Any = np.zeros(over.shape, np.int32)
            steps.append(
                Experience(observation, actions, step.reward, step.observation, over, over & False, nothing, ())
            )
            observation = result.observation
        starts.report(jax.tree.map(lambda *x: np.stack(x), *steps), clock, fresh)
        observation = starts.restart_waiting(observation)
        found.append(np.stack(seen))
    return found


def begin(starts: Any, tasks: Any, rollouts: int = 3, length: int = 1, num_envs: int = 4, slow: int = 2) -> Any:
    environment = Exam(num_envs, slow=slow)
    hosted = HostStarts(starts, environment, environment.spec, 0, tasks)
    action = 0 if isinstance(tasks, DARS) else 1
    return play(hosted, environment, rollouts, length, action), environment, hosted


def test_groups_get_one_problem_that_was_chosen_after_the_last_rollout():
    """Two groups a rollout; environment 0 ends in the second step, so group 1 is full then and later groups follow."""
    seen, environment, hosted = begin(Groups(2), InOrder(), length=2)
    # First rollout: groups 0 and 1, then environments 1 to 3 begin groups 2 (twice) and 3, and after the report the
    # first to begin, environment 0, fills group 3 although the part has learned: 7 answers, so problem 1 leads.
    np.testing.assert_array_equal(seen[0], [[0, 0, 1, 1], [0, 2, 2, 3]])
    np.testing.assert_array_equal(seen[1][0], [3, 1, 1, 2])
    assert environment.begun[:4] == [(0, 0.0), (0, 0.0), (1, 0.05), (1, 0.05)]
    own = hosted.state.tasks.part.own  # type: ignore[union-attr]
    assert own[0] == 21


def test_the_report_knows_which_problem_each_answer_was_to():
    class Even(InOrder):
        def rank(self, own: Any, key: Any, environment: Any) -> Any:
            return jnp.arange(environment.num_starts) % 2 + 0.0

    _, _, hosted = begin(Reset(), Even(), rollouts=1, length=2)
    _, answers, right = hosted.state.tasks.part.own  # type: ignore[union-attr]
    # Slots 0 to 3 are problems 0, 2, 4, 1, of which environment 0 ends late; 1 to 3 go on with 3, 5 and 0 again.
    np.testing.assert_array_equal(answers, [2, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(right, answers)


def test_an_episodes_score_is_its_whole_return_cut_at_one():
    hosted = HostedEnvironment(Exam(2).spec, num_starts=3)
    reward: Any = np.array([[0.25, 0.5], [0.5, 2.0], [1.0, 0.25]], np.float32)
    over: Any = np.array([[False, False], [True, True], [False, True]])
    number = np.array([[2, 0], [2, 0], [1, 0]])
    nothing: Any = np.zeros_like(reward)
    rollout = Experience(nothing, nothing, reward, nothing, over, over & False, nothing, ())
    chosen = jax.vmap(
        jax.vmap(lambda n: task(HostedEnvironment.from_environment(Exam(1), Exam(1).spec, tasks=InOrder()), n))
    )(jnp.asarray(number))
    visited = RolloutStates((), (), over, np.ones(2, bool), chosen)  # type: ignore[arg-type]
    found = rollout_outcomes(rollout, RolloutReport(hosted, visited, None, None), 3)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found.answers, [2, 0, 1])
    np.testing.assert_allclose(found.right, [1.25, 0, 0.75])
    np.testing.assert_allclose(found.least, [0.25, 1, 0.75])
    np.testing.assert_allclose(found.most, [1, 0, 0.75])
    # An answer that was lost is none, and the next one's score begins after it all the same.
    lost = rollout._replace(source=jnp.zeros((3, 2), jnp.int32).at[1, 1].set(GONE))
    found = rollout_outcomes(lost, RolloutReport(hosted, visited, None, None), 3)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found.answers, [1, 0, 1])
    np.testing.assert_allclose(found.right, [0.25, 0, 0.75])
    np.testing.assert_allclose(found.most, [0.25, 0, 0.75])
    # What a verifier finds of an answer is its score, whatever else the episode is paid.
    truth: Any = np.array([[np.nan, np.nan], [0, 1], [np.nan, np.nan]], np.float32)
    found = rollout_outcomes(rollout._replace(info={"truth": truth}), RolloutReport(hosted, visited, None, None), 3)  # type: ignore
    np.testing.assert_allclose(found.right, [1.25, 0, 0])


def test_every_problem_comes_once_in_an_epoch():
    class Plain(NumberedProblems):
        epochs: ClassVar[bool] = True

    seen, _, _ = begin(Reset(), Plain(), rollouts=6, num_envs=2, length=2)  # 3 problems a rollout
    firsts = np.concatenate([np.array([s[0][1], s[1][1], s[0][0]]) for s in seen])
    assert sorted(firsts[:6]) == sorted(firsts[6:12]) == list(range(6))


def test_an_epoch_leaves_out_what_the_part_says():
    class Odd(NumberedProblems):
        epochs: ClassVar[bool] = True

        def leaves_out(self, own: Any, key: Any, environment: Any) -> Any:
            return jnp.arange(environment.num_starts) % 2 == 0

    seen, _, _ = begin(Reset(), Odd(), rollouts=9, num_envs=2, length=2)
    assert set(np.concatenate(seen).ravel()) == {1, 3, 5}


def test_what_is_owed_comes_before_the_queue():
    seen, _, hosted = begin(Groups(4), DARS(normalised=False), rollouts=4, slow=1)
    # p = 0 counts as 1/8: S = 7/32, M = 2, so 2 / S = 9.14 answers are wanted: 6 more, two groups of the same problem.
    numbers = [int(s[0, -1]) for s in seen]
    assert numbers[0] == numbers[1] == numbers[2] != numbers[3]
    own = hosted.state.tasks.part.own  # type: ignore[union-attr]
    assert own[numbers[0]] == 0 and own[numbers[3]] == 2


def test_a_problem_of_the_queue_has_its_groups_in_a_row():
    part = DARS(normalised=False, repeats=2, rounds=2)
    seen, _, _ = begin(Groups(2), part, rollouts=3, num_envs=8, slow=1)
    first, second = (seen[0][0, ::4]).astype(int)
    # Two problems of two groups each; p = 0 counts as 1/8, which asks for three groups more of each, of which four fit
    assert seen[0][0].tolist() == [first] * 4 + [second] * 4
    assert set(seen[1][0].tolist()) == set(seen[0][0].tolist())
    assert not {first, second} & set(seen[2][0].astype(int).tolist())  # the next update begins with other problems


def test_levels_are_the_different_difficulties():
    assert levels(jnp.array([0.5, 0.0, 0.25, 0.5])).tolist() == [2, 0, 1, 2]


def test_other_places_are_refused():
    with pytest.raises(ForageError, match="use --starts reset or groups"):
        resolve("ppo", lambda n: Exam(n), steps=100, seeds=1, tasks=DARS(), starts=Archive(4)).runner()
    with pytest.raises(ForageError, match="CartPole-v1 does not provide them"):
        resolve("ppo", "CartPole-v1", steps=100, seeds=1, tasks=DARS()).runner()


def test_state_is_there_for_tasks_alone():
    environment = Exam(2)
    assert HostStarts(Groups(2), environment, environment.spec, 0).state.tasks == ()
    assert isinstance(HostStarts(Reset(), environment, environment.spec, 0, InOrder()).state.tasks, TasksState)


test_what_cannot_be_is_one_sentence = repeat(
    core.test_what_cannot_be_is_one_sentence,
    [
        ({"tasks": "greso", "options": {"problems": 0}}, "not provide them; use text:addition.*problems 1000"),
        ({"tasks": "greso", "environment": "gymnasium:CartPole-v1", "options": {}}, "GRPO needs text|not provide them"),
        ({"tasks": "rising", "options": {"problems": 20}}, "of one level"),
        ({"tasks": "adaptive-difficulty", "options": {"problems": 20}}, "equally difficult"),
        ({"tasks": "hints"}, "up to 0.75 of a solution, and text:addition at most 0;.*--env.hints 0.75"),
        ({"tasks": "seele", "options": {"problems": 20, "hints": 0.5}}, "at most 0.5"),
    ],
)


@pytest.mark.thorough
def test_a_resumed_run_chooses_as_one_that_never_stopped(tmp_path):
    agent = GRPO(model=model(), rollout_length=1, num_envs=8, group_size=4)
    options = {"problems": 12, "level": "0-3", "hints": 0.75}
    given: dict[str, Any] = {"agent": agent, "environment": "text:addition", "seeds": [1], "display": "quiet"}
    given |= {"environment_options": options, "tasks": "hints"}
    whole = forage.train(**given, steps=48, directory=tmp_path / "whole")
    forage.train(**given, steps=24, directory=tmp_path / "parts")
    parts = forage.resume(tmp_path / "parts", steps=48, agent=agent, display="quiet")
    assert whole is not None and parts is not None
    one, two = (np.load(sorted((tmp_path / name / "checkpoints").glob("*.npz"))[-1]) for name in ("whole", "parts"))
    names = json.loads(one["names"].tobytes())
    assert one[f"leaf{names.index('[0].starts.tasks.part.owed')}"].any()  # what nobody solved comes again
    assert all(np.array_equal(one[leaf], two[leaf]) for leaf in one if leaf != "header")
