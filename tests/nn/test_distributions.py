"""Products of choices and numbers: numbers worked out by hand."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from mixed_helpers import FLAT, PARTS
from small import compute

from forage.core.arrays import ActionNesting, action_space, as_actions
from forage.core.ports import ActInputs
from forage.nn.distributions import Actions, Categorical, Gaussian, MultiCategorical, Product, draw_action

LOG3, LOG4 = math.log(3), math.log(4)
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def product(logits=(LOG3, 0.0), mean=(0.5, -1.0), deviation=(1.0, 2.0)):
    choices = MultiCategorical((Categorical(jnp.array(logits)), Categorical(jnp.zeros(4))))
    return Product(choices, Gaussian(jnp.array(mean), jnp.log(jnp.array(deviation))))


def test_a_product_sums_over_choices_and_numbers():
    def judge():
        policy, other = product(), product((0.0, 0.0), (0.5, 1.0), (1.0, 1.0))
        likely = policy.log_probability(jnp.array([0.0, 3.0, 1.5, -3.0]))
        return likely, policy.entropy(), policy.mode(), policy.divergence(other), policy.divergence(policy)

    likely, spread, mode, apart, same = compute(judge)
    # p = 3/4 and 1/4; the numbers are 1 and -1 deviations off.
    assert likely == pytest.approx(math.log(0.75) - LOG4 - 2 * (0.5 + HALF_LOG_2PI) - math.log(2), abs=1e-6)
    entropy = 0.75 * math.log(4 / 3) + 0.25 * LOG4 + LOG4 + 2 * (0.5 + HALF_LOG_2PI) + math.log(2)
    assert spread == pytest.approx(entropy, abs=1e-6)
    np.testing.assert_array_equal(mode, [0, 0, 0.5, -1])
    # KL of the choice; of the second number ln(1/2) + (4 + 4)/2 - 1/2
    wanted = 0.75 * math.log(1.5) + 0.25 * math.log(0.5) - math.log(2) + 4 - 0.5
    assert apart == pytest.approx(wanted, abs=1e-5)
    assert same == pytest.approx(0, abs=1e-6)


def test_samples_of_a_product_have_its_moments_and_may_be_made_from_noise():
    noise = ActInputs((), None, jax.random.key(1), True, jnp.array([2.0, -0.5]))

    def draw():
        policy = product()
        drawn = jax.vmap(policy.sample)(jax.random.split(jax.random.key(0), 4000))
        greedy = draw_action(policy, noise.replace(explore=False))
        return drawn, draw_action(policy, noise), greedy, policy.mode()

    drawn, noisy, greedy, mode = compute(draw)
    assert set(drawn[:, 1]) == {0, 1, 2, 3}
    np.testing.assert_allclose(drawn[:, [0, 2, 3]].mean(0), [0.25, 0.5, -1], atol=0.1)
    np.testing.assert_allclose(drawn[:, 2:].std(0), [1, 2], rtol=0.1)
    np.testing.assert_allclose(noisy[2:], [2.5, -2], atol=1e-6)
    np.testing.assert_array_equal(greedy, mode)


def test_mixed_actions_bring_their_numbers_alone_into_the_unit_box():
    actions = Actions.from_space(FLAT)
    assert (actions.sizes, actions.outputs, actions.discrete) == ((2, 2, 2), 8, False)
    action = np.float32([1.0, 0.0, 1.0, -3.0, 1.5])  # choices more.0 and side, then more.1 and power
    far = np.float32([1.0, 0.0, 1.0, -3.0, 9.0])

    def change(action, far, outputs):
        unit = actions.to_unit(action)
        mask = jnp.array([1, 0, 0, 0, 1, 1], bool)  # one option, none (so both), both
        policy = actions.distribution(outputs, jnp.zeros(2), mask)
        return (
            (unit, actions.to_box(unit), actions.unit_action(far), actions.action_features(far)),
            (actions.clip_unit(jnp.array([1.0, 1, 1, -4, 4])), actions.squash(outputs)),
            (policy.mode(), [one.probabilities() for one in policy.choices.choices[:2]]),
        )

    there, bounded, (mode, chances) = compute(change, action, far, np.arange(8, dtype=np.float32))
    unit, back, unit_far, features = there
    np.testing.assert_allclose(unit, [1, 0, 1, -1, 0.5], atol=1e-6)
    np.testing.assert_allclose(back, action, atol=1e-3)
    np.testing.assert_allclose(unit_far, [1, 0, 1, -1, 1])
    np.testing.assert_allclose(features, [0, 1, 1, 0, 0, 1, -1, 1])
    np.testing.assert_allclose(bounded[0], [1, 1, 1, -1, 1])
    np.testing.assert_allclose(bounded[1], [*range(6), math.tanh(6), math.tanh(7)], rtol=1e-6)
    np.testing.assert_allclose(mode, [0, 1, 1, 6, 7])
    assert chances[0][0] == pytest.approx(1)
    assert chances[1][1] == pytest.approx(1 / (1 + math.exp(-1)))


def test_an_entry_that_has_one_value_is_no_output_of_a_mixed_policy():
    space = spaces.Tuple((spaces.Box(np.float32([0, 7]), np.float32([2, 7])), spaces.Discrete(3)))
    actions = Actions.from_space(action_space("x", space))
    assert actions.outputs == 4
    box, unit = compute(
        lambda x, y: (actions.to_box(x), actions.to_unit(y)), np.float32([2, 0.5]), np.float32([2, 1.5, 7])
    )
    np.testing.assert_allclose(box, [2, 1.5, 7])
    np.testing.assert_allclose(unit, [2, 0.5])


@pytest.mark.parametrize("of", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_vectors_become_nested_elements_and_come_back(of):
    nest = ActionNesting(FLAT, PARTS)
    one = nest(of(np.float32([1, 0, 1, 2.6, 1.5])))
    assert (int(one["side"]), float(one["power"][0]), int(one["more"][1])) == (6, 1.5, 3)
    assert one["more"][0].tolist() == [1, 0] and one["more"][0].dtype == np.int8
    rows = nest(of(np.float32([[0, 1, 0, -9, 0.5], [1, 1, 1, 1e6, 9]])))
    assert rows["more"][1].tolist() == [-3, 90_000] and rows["power"].tolist() == [[0.5], [2]]
    assert rows["side"].tolist() == [5, 6]
    back = as_actions(PARTS, jax.tree.map(np.asarray, rows), 2)
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back, [[0, 1, 0, -3, 0.5], [1, 1, 1, 90_000, 2]])
    if of is np.asarray:
        assert PARTS.contains(one) and type(one["side"]) is int
