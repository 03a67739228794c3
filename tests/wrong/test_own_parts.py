"""Journey 8: a user's own schedules, networks, optimisers and encoders."""

import optax
import pytest

PPO = "train ppo CartPole-v1"
WRONG = [
    (f"{PPO} --learning-rate linear:3e-4", "A schedule of this form is linear:FROM,TO"),
    (f"{PPO} --learning-rate liner:3e-4,0", "There is no schedule 'liner:3e-4,0'. Did you mean 'linear'"),
    (f"{PPO} --learning-rate linear:nan,0", "A schedule of this form is"),
    (f"{PPO} --learning-rate linear:-1,0", "learning-rate of ppo is 0 or more, not -1"),
    (f"{PPO} --learning-rate mine.py:two", "The schedule .*mine.py:two failed: .* share of the run that is over"),
    (f"{PPO} --learning-rate mine.py:nope", "mine.py has no function or class nope"),
    (f"{PPO} --learning-rate mine.py:nothing", "The schedule .* something other than one finite number|failed"),
    (f"{PPO} --activation swish2", "There is no activation 'swish2' in jax.nn. Did you mean 'swish'"),
    (f"{PPO} --activation mine.py:nothing", "The activation nothing does not give one number for each"),
    (f"{PPO} --activation mine.py:value", "mine.py has no function or class value"),
    (f"{PPO} --optimiser adamm", "There is no optimiser 'adamm' in Optax. Did you mean 'adam'"),
    (f"{PPO} --optimiser mine.py:nothing", "nothing is no optimiser here"),
    (f"{PPO} --optimizer sgd", "Did you mean '--optimiser'"),
    (f"{PPO} --encoder mine.py:Plain", r"Plain cannot encode Box\(4,\): .*; an encoder is an equinox.Module made by"),
    (f"{PPO} --layer-norm maybe", "--layer-norm is true or false, not 'maybe'"),
    (f"{PPO} --value-sizes big", "--value-sizes is one or more whole numbers with commas between them"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[words for words, _ in WRONG])
def test_one_sentence(words, said, answer):
    answer(words, said)


OPTIONS = [
    ({"learning_rate": lambda: 1}, "The schedule .* failed"),
    ({"learning_rate": lambda share: None}, "The schedule .*"),
    ({"learning_rate": lambda share: float("nan")}, "something other than one finite number"),
    ({"learning_rate": optax.adam(1e-3)}, "learning_rate of ppo is a number, not"),
    ({"activation": 5}, "The activation 5 does not give one number for each"),
    ({"optimiser": 5}, "5 is no optimiser here"),
]


@pytest.mark.parametrize(("options", "said"), OPTIONS, ids=[said[:40] for _, said in OPTIONS])
def test_from_python(options, said, refuse, train):
    refuse(lambda: train(agent_options=options), said)
