"""Journey 12: claims, lists, explanations and help."""

import pytest

WRONG = [
    ("trian ppo CartPole-v1", "Unknown command 'trian'. Did you mean 'train'"),
    ("Train ppo CartPole-v1", "Unknown command 'Train'. Did you mean 'train'"),
    ("ppo CartPole-v1", "Unknown command 'ppo'; forage --help lists them"),
    ("claim nope", "Unknown claim 'nope'"),
    ("list wrapper", "Unknown kind 'wrapper'. Did you mean 'wrappers'"),
    ("show Cartpole", "Did you mean 'CartPole-v1'"),
    ("list ppo", "Unknown kind 'ppo'"),
    ("show PPO", "Did you mean 'ppo'"),
    ("show rnd icm", "takes the name of a part or an environment"),
    ("show gymnasium:Nope-v1", "Unknown .*'gymnasium:Nope-v1'"),
    ("show nothere.py:X", "There is no file .*nothere.py"),
    ("show no_settings", "is not the configuration of a run of Forage"),
    ("show torn", "torn/config.json cannot be read"),
    ("ledger check ppo-cartpole", "forage ledger is python benchmarks/ledger of Forage's repository now"),
    ("cite nowhere", "nowhere is not a run"),
    ("cite another", "is not the configuration of a run of Forage"),
    ("completion tcsh", "Unknown shell 'tcsh'. Did you mean 'zsh'"),
    ("push run", "takes a run and a repository"),
    ("pull a", "is called USER/NAME"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[words for words, _ in WRONG])
def test_one_sentence(words, said, answer):
    answer(words, said)
