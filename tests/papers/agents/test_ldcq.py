"""Skills drawn by diffusion: denoising, the losses of each stage by hand, and that a skill is followed."""

from types import SimpleNamespace
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from fine_tuning_helpers import SPEC
from gymnasium import spaces
from small import at_once, compute

from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage_papers.agents.offline.ldcq import LDCQ, Following, Normal, Segments
from forage_papers.nn.diffusion import denoise, denoising_error, signal_shares

SMALL: dict[str, Any] = {"horizon": 3, "followed": 2, "skill_size": 2, "hidden_size": 8, "denoiser_sizes": (8, 4)}
SMALL |= {"diffusion_steps": 4, "extra_steps": 1, "candidates": 3, "discount": 0.5}
AGENT = LDCQ(**SMALL)
STAGES = [0.1, 0.5, 0.9]  # fractions of a run in which skills, diffusion and values are learned


def first():
    return at_once(lambda: AGENT.init(jax.random.key(0), SPEC))


def segments(rows=4, ended=None):
    random = np.random.default_rng(0)
    seen, after = (random.normal(size=(3, rows, 3)).astype(np.float32) for _ in range(2))
    no = np.zeros((3, rows), bool)
    action = random.uniform(-2, 2, (3, rows, 2)).astype(np.float32)
    reward = np.arange(3 * rows, dtype=np.float32).reshape(3, rows)
    experience = Experience(seen, action, reward, after, no if ended is None else ended, no, no.astype(np.int32), ())
    return jax.device_put(Batch(experience, np.ones(rows, np.float32), np.arange(rows)))


def test_denoising_by_hand():
    """A network of zeros misses data of ones by 1, weighted by the share of signal; the true one has an error of 0."""
    each, all_kept = (np.asarray(x) for x in signal_shares(3))
    np.testing.assert_allclose(each, 1 - np.array([1e-4, 0.01005, 0.02]), rtol=1e-6)
    np.testing.assert_allclose(all_kept, np.cumprod(each), rtol=1e-6)
    data = jnp.ones((64, 2))

    def errors():
        nothing, times = jnp.zeros_like, []
        found = denoising_error(lambda x, t: (times.append(t), nothing(x))[1], data, jax.random.key(0), 3)
        return found, times[0], denoising_error(lambda x, t: data, data, jax.random.key(0), 3)

    missed, time, right = compute(errors)
    weight = np.minimum(all_kept / (1 - all_kept), 5.0)
    np.testing.assert_allclose(missed, weight[time - 1], rtol=1e-5)
    assert set(time) == {1, 2, 3} and not right.any()


def test_noise_is_carried_to_what_the_network_says():
    goal = jnp.array([[0.5, -1.0]] * 500)

    def carry(wanted):
        return denoise(lambda x, t: goal, jax.random.key(0), goal.shape, 100, 5, wanted)

    found, noise = compute(lambda: (carry(True), carry(False)))
    np.testing.assert_allclose(found, goal, atol=0.05)  # the last steps are nearly without noise
    assert abs(noise.std() - 1) < 0.1 and abs(noise.mean()) < 0.1


def test_divergence_and_density_by_hand():
    one, other = Normal(jnp.array([1.0, 0.0]), jnp.array([2.0, 1.0])), Normal(jnp.zeros(2), jnp.ones(2))
    found, same, density = compute(
        lambda: (one.divergence(other), one.divergence(one), one.log_probability(jnp.ones(2)))
    )
    np.testing.assert_allclose([found, same], [0.5 * (4 + 1 - 1 - np.log(4)), 0], atol=1e-6)
    np.testing.assert_allclose(density, -np.log(2) - 0.5 - np.log(2 * np.pi), rtol=1e-6)


def test_skills_are_drawn_towards_what_the_first_state_lets_expect():
    """KL(posterior of the segment || prior), by hand as above, per step of three; the reverse one differs."""
    shown, prior = Normal(jnp.array([[1.0, 0.0]]), jnp.array([[2.0, 1.0]])), Normal(jnp.zeros((1, 2)), jnp.ones((1, 2)))
    followed: list[Any] = []

    def actions(state, skill, action):
        followed.append(skill)
        return Normal(jnp.zeros_like(action), jnp.ones_like(action))

    skills: Any = SimpleNamespace(skill_distributions=lambda _: shown, prior=lambda state: prior, actions=actions)
    action = jnp.array([[[1.0]], [[2.0]], [[0.0]]])
    one = Segments(jnp.zeros((3, 1, 4)), action, jnp.zeros((1, 4)), jnp.zeros(1), jnp.zeros(1, bool), jnp.ones(1))
    improbable, divergence = AGENT.skill_error(skills, one, jnp.array([[0.5, -1.0]]))
    np.testing.assert_allclose(divergence, [0.5 * (4 + 1 - 1 - np.log(4)) / 3], rtol=1e-6)
    np.testing.assert_allclose(improbable, [0.5 * np.log(2 * np.pi) + 0.5 * (1 + 4 + 0) / 3], rtol=1e-6)
    np.testing.assert_allclose(followed[0], np.broadcast_to([2.0, -1.0], (3, 1, 2)))


@pytest.mark.thorough
def test_each_number_of_an_action_knows_those_before_it():
    skills = first().skills
    state, skill = jnp.ones((1, 3)), jnp.ones((1, 2))

    def means(action):
        return skills.actions(state, skill, jnp.asarray(action, jnp.float32)[None]).mean[0]

    a, b, c, chosen = compute(
        lambda: (
            means([0.0, 0.0]),
            means([0.7, 0.0]),
            means([0.0, 0.9]),
            skills.decode_action(state[0], skill[0], jnp.zeros(2)),
        )
    )
    assert a[0] == b[0] and a[1] != b[1] and (a == c).all()
    np.testing.assert_allclose(chosen, [a[0], compute(means, [a[0], 0.0])[1]], rtol=1e-5)


@pytest.mark.thorough
def test_each_stage_moves_its_own_networks_alone():
    """A segment that crosses an episode's end has no effect, with any actions."""
    state = first()
    ended = np.zeros((3, 4), bool)
    ended[1, 3] = True
    batch = segments(ended=ended)
    other = batch._replace(experience=batch.experience._replace(action=batch.experience.action.at[:, 3].set(2.0)))

    def run_learn(both):
        done = jnp.asarray(STAGES, jnp.float32)
        clocks = Clock(100 * done, jnp.full(3, 100.0))
        learn = lambda batch: lambda clock: AGENT.learn(state, batch, clock, jax.random.key(1))  # noqa: E731
        return jax.lax.map(lambda batch: jax.lax.map(learn(batch), clocks), both)

    later, metrics, error = compute(run_learn, jax.tree.map(lambda *x: jnp.stack(x), batch, other))
    assert metrics["stage"].tolist() == [[0, 1, 2]] * 2
    assert (error[:, :, 3] == 0).all() and (error[:, :, :3] > 0).all()
    names = [{"skills", "skills_optimiser"}, {"denoiser", "denoiser_optimiser"}]
    names += [{"critics", "target_critics", "critic_optimiser"}]
    for name in state._fields:
        old, new = (jax.tree.leaves(getattr(x, name)) for x in (state, later))
        assert all((a[0] == a[1]).all() for a in new), name
        for stage, moved in enumerate(names):
            assert any((np.asarray(a) != b[0, stage]).any() for a, b in zip(old, new, strict=True)) == (
                name in moved
            ), name


@pytest.mark.thorough
def test_the_target_by_hand():
    """Critics value a skill at its first number times 1 and -2: each learns the least value of the other's choice."""
    state = first()
    found = jnp.array([[[1.0, 0], [2.0, 0], [-3.0, 0]]] * 2)
    reward = jnp.tensordot(0.5 ** jnp.arange(3), jnp.array([[1.0, 1], [2, 2], [4, 4]]), 1)
    some = Segments(
        jnp.zeros((3, 2, 3)), jnp.zeros((3, 2, 2)), jnp.zeros((2, 3)), reward, jnp.array([False, True]), None
    )

    class Slopes(equinox.Module):
        slope: Any

        def __call__(self, state, skill):
            return self.slope * skill[..., 0]

    target = compute(lambda: AGENT.target(state._replace(target_critics=Slopes(jnp.array([1.0, -2.0]))), some, found))
    # For the first critic the second chooses -3, worth min(-3, 6); for the second the first chooses 2, min(2, -4).
    np.testing.assert_allclose(target, [[3 + 0.125 * -3, 3], [3 + 0.125 * -4, 3]])


@pytest.mark.thorough
def test_the_best_skill_is_followed_for_some_steps():
    state = first()

    def episode():
        def step(hidden, key):
            _, hidden, _ = AGENT.act(state, ActInputs(hidden, jnp.ones(3), key, True))
            return hidden, hidden

        begun = Following(jnp.zeros(2), jnp.int32(0))
        return jax.lax.scan(step, begun, jax.random.split(jax.random.key(0), 5))[1]

    skill, left = compute(episode)
    assert left.tolist() == [1, 0, 1, 0, 1]
    assert (skill[0] == skill[1]).all() and (skill[2] == skill[3]).all()
    assert (skill[1] != skill[2]).any() and (skill[3] != skill[4]).any()


def test_what_is_refused():
    with pytest.raises(ForageError, match="leaves nothing for values"):
        LDCQ(skill_share=0.6, prior_share=0.4)
    with pytest.raises(ForageError, match="followed of LDCQ is at most horizon"):
        LDCQ(**SMALL | {"followed": 4})
    with pytest.raises(ForageError, match="take a shorter horizon"):
        check(AGENT, Spec("Short", SPEC.observation_space, SPEC.action_space, horizon=2))
    with pytest.raises(ForageError, match="LDCQ needs vectors of numbers"):
        check(AGENT, Spec("Eye", spaces.Box(0, 255, (8, 8, 3), np.uint8), SPEC.action_space))
    with pytest.raises(ForageError, match="LDCQ"):
        check(AGENT, Spec("Choices", SPEC.observation_space, spaces.Discrete(2)))
