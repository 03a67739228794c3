"""An advisor for SAC: its schedule and questions, the pull on the policy, its cutoff, and resuming."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from critic_helpers import inputs_of
from fine_tuning_helpers import SPEC, batch
from small import at_once, compute

from forage.agents.actor_critic.sac import SAC
from forage.config.resolve import resolve
from forage.core.types import Clock, ForageError
from forage_papers.agents.actor_critic.offline_to_online.varl import VARL

CLOCK = Clock(jnp.int32(0), jnp.float32(100))
TINY = {"hidden_sizes": (), "batch_size": 4, "learning_rate": 1e-2, "num_envs": 2}
ASKED = {"advice_interval": 4, "advice_rows": 3, "advice_capacity": 5, "recent": 4}


def turn(observation, action):
    """Advise the opposite of an action."""
    return -action


AGENT = VARL(**TINY, **ASKED, advisor=turn, cutoff=10)


def rollouts(number):
    """Return rollouts of one step in two environments; each row observes its number, and its action is a hundredth of
    it.
    """
    rows = jnp.arange(2.0 * number).reshape(number, 1, 2, 1)
    step = jax.tree.map(lambda x: jnp.broadcast_to(x[:, :2], (number, *x[:, :2].shape)), batch().experience)
    return step._replace(observation=jnp.tile(rows, 3), action=jnp.tile(rows, 2) / 100)


def advice_after_each(agent, number):
    """Return the advice after each of `number` rollouts."""

    def observe(state, rollout):
        state = agent.observe(state, rollout)
        return state, (state.given, state.seen, state.advice)

    return compute(lambda: jax.lax.scan(observe, agent.init(jax.random.key(0), SPEC), rollouts(number))[1])


def test_it_is_asked_at_intervals_about_what_was_just_done_until_the_cutoff():
    given, seen, advice = advice_after_each(AGENT, 7)
    np.testing.assert_array_equal(seen, [2, 4, 6, 8, 10, 12, 14])
    np.testing.assert_array_equal(given, [0, 3, 3, 6, 6, 6, 6])  # at 4 and 8, and 12 is after the cutoff
    rows = advice.observation[3, :, 0]  # the sixth piece went over the first
    assert set(rows[1:3]) <= {0, 1, 2, 3} and set(rows[[3, 4, 0]]) <= {4, 5, 6, 7}
    np.testing.assert_allclose(
        advice.action[3], -np.tile(rows[:, None], 2) / 200, atol=1e-7
    )  # the box is twice the unit


@pytest.mark.parametrize(("seen", "weight"), [(4, 0.5), (10, 0.0)])
def test_the_policys_loss_has_the_distance_to_the_advice_before_the_cutoff_alone(seen, weight):
    agent = VARL(**TINY, **ASKED, advisor=turn, cutoff=10, shaping_weight=0.5)

    def find_results():
        state = agent.init(jax.random.key(0), SPEC)
        advice = state.advice._replace(action=jnp.full_like(state.advice.action, 0.6))
        state = state._replace(advice=advice, given=jnp.int32(3), seen=jnp.int32(seen))
        given = state.actor, state, inputs_of(jnp.ones((4, 3)), noise=jnp.zeros((4, 2)))
        mode = state.actor(jnp.zeros((1, 3))).mode()  # advice is about zeros here
        return agent.actor_loss(*given)[0] - SAC.actor_loss(agent, *given)[0], jnp.mean((mode - 0.6) ** 2)

    more, distance = compute(find_results)
    np.testing.assert_allclose(more, weight * distance, atol=1e-6)


@pytest.mark.thorough
def test_it_is_sac_while_there_is_no_advice():
    plain = SAC(**TINY)

    def run_learn(agent):
        state = agent.init(jax.random.key(0), SPEC)
        return agent.learn(state, batch(), CLOCK, jax.random.key(1))[0]

    ours, theirs = at_once(lambda: (run_learn(AGENT), run_learn(plain)))
    for name in ("actor", "critics", "log_temperature"):
        for one, other in zip(*map(jax.tree.leaves, (getattr(ours, name), getattr(theirs, name))), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7, err_msg=name)


def test_a_function_of_the_host_is_asked_row_by_row():
    called = []

    def advisor(observation, action):
        assert isinstance(observation, np.ndarray)
        called.append(float(observation[0]))
        return [2.0, -2.0]

    agent = VARL(**TINY, **ASKED, advisor=advisor, on_host=True, cutoff=10)

    advice = advice_after_each(agent, 2)[2]
    np.testing.assert_allclose(advice.action[1, :3], [[1.0, -1.0]] * 3)
    assert len(called) == 3 and set(called) <= {0.0, 1.0, 2.0, 3.0}


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped_and_evaluated_without_the_advisor(tmp_path, capsys):
    small.train(tmp_path / "base", "td3")
    options = {"advisor": str(tmp_path / "base"), "hidden_sizes": (8,), "batch_size": 4, "learning_starts": 16}
    options |= {"advice_interval": 8, "advice_rows": 2, "recent": 16, "cutoff": 60}
    setup = resolve("varl", "Pendulum-v1", seeds=[3, 7], steps=2000, agent_options=options)
    again, runner, _ = small.resume_run(setup, tmp_path, 40)
    assert small.differing(runner.state, again.state) == []
    assert (np.asarray(runner.state.learner.agent.given) == 2 * 7).all()  # at 8, 16 ... 56
    words = (*small.words(options), "--steps", "64", "--seeds", "2", "--directory", tmp_path / "run")
    assert small.run_command(capsys, "train", "varl", "Pendulum-v1", *words)[0] == 0
    (tmp_path / "base").rename(tmp_path / "gone")
    assert small.run_command(capsys, "evaluate", tmp_path / "run", "--episodes", "2")[0] == 0


def test_what_is_refused():
    def check_refused(words, **given):
        with pytest.raises(ForageError, match=words):
            VARL(**TINY, **given).check(SPEC)

    check_refused("name the run of one with --advisor RUN")
    check_refused("called with an observation and an action", advisor=lambda observation: observation)
    check_refused("The advisor of VARL does not return", advisor=lambda observation, action: observation)
    check_refused("give advice_capacity=16 or more", advisor=turn, advice_capacity=8)
    check_refused("A rollout has 2 transitions", advisor=turn, recent=1)
    with pytest.raises(ForageError, match="leave on_host"):
        VARL(**TINY, advisor="somewhere", on_host=True).check(SPEC)
    with pytest.raises(ForageError, match="holds no trained agent"):
        resolve("varl", "Pendulum-v1", seeds=1, agent_options={"advisor": "nowhere"})
