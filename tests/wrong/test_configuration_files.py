"""Journey 5: settings from files."""

import pytest

WRONG = [
    ("nothere.json", "nothere.json cannot be read: No such file"),
    ("run", "run is a directory; the settings of a run are in its file config.json"),
    ("file.txt", r"its name ends with .json, .toml, .yaml or .yml"),
    ("empty.json", "empty.json is not JSON"),
    ("empty.toml", "empty.toml names no environment; add one there"),
    ("list.json", "list.json holds no settings by name"),
    ("bad.toml", "bad.toml is not TOML: .* line 1"),
    ("typo.toml", "typo.toml has 'agnet', which is no setting of a run. Did you mean 'agent'"),
    ("mark.json", "mark.json has 'agnet'"),
    (
        "loose.toml",
        r'has \'learning_rate\', .*; it is an option of the agent, as in agent = {part = "ppo", learning_rate',
    ),
    ("lr.toml", r'has \'lr\', .*; it is an option of the agent, as in agent = {part = "ppo", learning_rate'),
    ("theirs.toml", "ppo has no option 'lr'. Did you mean 'learning_rate'"),
    ("name.toml", "agent in name.toml is a name, or a table with `part`"),
    ("sb3.json", "sb3.json has 'policy', which is no setting of a run. Did you mean 'agent'"),
    ("size.json", "hidden_sizes of ppo in size.json is a list of whole numbers"),
    ("sizes.json", "hidden_sizes of ppo in sizes.json is a list of whole numbers"),
    ("rate.json", "learning_rate of ppo in rate.json is a number, not '1e-3'"),
    ("true.json", "learning_rate of ppo in true.json is a number, not True"),
    ("half.json", "num_envs of ppo in half.json is a whole number, not 2.5"),
    ("wrap.json", "wrap of the environment in wrap.json is a list of texts, not 'frame-stack:4'"),
    ("options.json", "options of the environment in options.json is a dictionary or None, not"),
    ("sweep.json", "sweep of sweep.json is a dictionary of a list of numbers, not"),
    ("seeds.json", r"seeds of seeds.json is a whole number or a list of whole numbers, not \['a'\]"),
    ("steps.toml", "steps is a whole number such as 500_000 or '500k', not '5kk'"),
    ("ports.json", "rewards in ports.json is a name, or a table with `part`"),
    ("opponent.json", "opponent of opponent.json is a text, not 3"),
    ("torn/config.json", "torn/config.json is not JSON"),
    ("run/versions.json", "which is no setting of a run"),
    ("run/config.json --agent dqn", "option '--agent'"),
    ("run/config.json dqn CartPole-v1", "has the agent ppo and its parts; leave out dqn, or run/config.json"),
]


@pytest.mark.parametrize(("file", "said"), WRONG, ids=[file for file, _ in WRONG])
def test_one_sentence(file, said, answer):
    answer(f"train --config {file}", said)


SAVED = [
    ("train ppo CartPole-v1 --save-config file.txt", r"Settings are saved as TOML, so file\.txt ends with \.toml"),
    ("train ppo CartPole-v1 --save-config bad.toml", r"bad\.toml is there already; name another file, or delete it"),
    ("train --from run --save-config new.toml", "keeps settings alone, without weights or data; leave out --from and"),
    ("train typo.toml", "typo.toml has 'agnet', which is no setting of a run"),
    ("train nothere.toml", "nothere.toml cannot be read: No such file"),
    ("train bad.toml --config typo.toml", "typo.toml has 'agnet'"),
]


@pytest.mark.parametrize(("words", "said"), SAVED, ids=[words for words, _ in SAVED])
def test_a_file_of_settings(words, said, answer):
    answer(words, said)
