"""AMPO: teachers' answers are learned from by a shaped probability, and runs with their files stop and resume."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import check_resumed
from test_grpo import group_case, model, run_learn

from forage.agents.language.base import Aux
from forage.agents.language.grpo import Scores
from forage.config.resolve import resolve
from forage.core import spaces
from forage.core.types import DATASET, Batch, Experience, ForageError, Replay
from forage.data import files
from forage.data.logged import Transitions
from forage.runs.run import Run
from forage_papers.agents.language.ampo import AMPO
from forage_papers.memory.successes import Successes
from forage_papers.memory.teachers import Teachers

PROBLEMS = {"problems": 3, "level": 1}


def setup_of(memory=None, **options):
    options = {"model": model(), "num_envs": 8, "group_size": 4} | options
    return resolve(
        "ampo", "text:addition", agent_options=options, steps=64, seeds=[0], environment_options=PROBLEMS, memory=memory
    )


def work_out(path):
    """Write an expert's answers to the problems, as a teacher's file."""
    setup = setup_of()
    environment = setup.environment(16)
    seen = environment.reset(0)
    step = environment.step(seen["reference"]).step
    rows = Transitions(seen, seen["reference"], step.reward, step.observation, step.terminated, step.truncated)
    names = ("observation_space", "action_space")
    spec = {name: spaces.to_json(getattr(setup.spec, name)) for name in names}
    files.write_data(path, rows, {"spec": {"name": setup.spec.name, **spec}})
    return Teachers(str(path), group_size=4)


def taught_batch(agent, setup, action=None):
    """Return a group with a teacher's answer, the reference, in the first place, and a group of wrong answers."""
    seen = jax.tree.map(lambda x: jnp.asarray(x)[None], group_case(setup.environment(8).reset(0), 4))
    reference = seen["reference"]
    action = jnp.where(reference > 0, 7, 0) if action is None else action
    flags, kept = jnp.zeros((1, 8), bool), jnp.zeros(reference.shape)
    experience = Experience(
        observation=seen,
        action=action.at[:, 0].set(reference[:, 0]),
        reward=jnp.zeros((1, 8)).at[0, 0].set(1),
        next_observation=seen,
        terminated=~flags,
        truncated=flags,
        source=jnp.zeros((1, 8), jnp.int32).at[0, 0].set(DATASET),
        policy_info=Aux(kept, kept),
    )
    return Batch(experience, jnp.ones(8), jnp.arange(8), Replay(flags[0], jnp.full(8, jnp.nan)))


def test_a_teacher_s_answer_counts_in_its_group_by_its_shaped_probability():
    setup = setup_of()
    agent = setup.agent
    assert isinstance(agent, AMPO)
    batch = taught_batch(agent, setup)
    lesson = agent.assign_credit(batch, agent.collect_answers(batch), batch.experience.reward.sum(0).reshape(2, 4))
    np.testing.assert_allclose(lesson.advantage[:, 0], [0.75, -0.25, -0.25, -0.25, 0, 0, 0, 0])
    assert lesson.weight.all() and lesson.more.tolist() == [True] + [False] * 7
    # Two answers of one token each, of probability 0.4: 4/5 for the teacher's, and the clip at 1.2 for one's own
    two = jax.tree.map(lambda x: x[jnp.array([0, 1])], lesson)._replace(advantage=jnp.array([[0.75], [-0.25]]))
    mask = jnp.zeros(two.rows.wrote.shape, bool).at[:, 0].set(True)
    now, old = jnp.full(mask.shape, jnp.log(0.4)), jnp.full(mask.shape, jnp.log(0.2))
    loss, said = agent.surrogate(None, two, Scores(now, old, now, mask))
    assert np.isclose(loss, (-0.75 * 0.8 + 0.25 * 2.0) / 2 / mask.shape[1])  # a bad token is followed beyond 1.2
    assert np.isclose(said["taught_probability"], 0.4)
    with pytest.raises(ForageError, match="--memory teachers"):
        agent.learn(None, batch._replace(replay=()), None, None)


@pytest.mark.thorough
def test_where_all_fail_a_teacher_s_answer_becomes_likelier():
    setup = setup_of(learning_rate=1e-3, entropy_coefficient=0.0)
    learner = setup.learner(learns=False)
    agent, state = learner.agent, setup_of().learner(learns=False).agent.init(jax.random.key(0), learner.spec)
    batch = taught_batch(agent, setup)
    after, metrics, _ = run_learn(agent, state, batch)
    seen = jax.tree.map(lambda x: x[0], (batch.experience.observation, batch.experience.action))
    change = (agent.likelihood(after, *seen) - agent.likelihood(state, *seen)).sum(1)
    assert change[0] > 0 > change[1:4].mean() and metrics["taught"] == 1 / 8
    assert metrics["first_ratio"] == 0
    # Untrained, every token is about as likely as any
    assert np.isclose(metrics["taught_probability"], 1 / 512, rtol=0.5)


def test_others_than_teachers_are_refused(tmp_path):
    with pytest.raises(ForageError, match="such as grpo"):
        setup_of(Successes(group_size=4)).learner(learns=False)
    file = work_out(tmp_path / "a.npz")
    with pytest.raises(ForageError, match="use ampo"):
        options = {"model": model(), "num_envs": 8, "group_size": 4}
        given = {"agent_options": options, "environment_options": PROBLEMS}
        resolve("grpo", "text:addition", memory=file, steps=64, seeds=[0], **given).learner(learns=False)


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(tmp_path):
    given = {"memory": work_out(tmp_path / "a.npz"), "environment_options": PROBLEMS, "rewards": None}
    check_resumed(tmp_path, setup_of().agent, "text:addition", 24, 40, **given)
    assert any(row["taught"][0] > 0 for row in Run(tmp_path / "whole").rows)
