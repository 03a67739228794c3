"""Journey 3: a user's own environment."""

import pytest

WRONG = [
    ("train ppo mine.py:", "mine.py has no class"),
    ("train ppo mine.py:base", "mine.py has no class base; it has Base"),
    ("train ppo mine.py:tow", "mine.py has no class tow; it has "),
    (
        "train ppo mine.py:two",
        "function mine.py:two could not be called with a number of environments: .* takes that number",
    ),
    ("train ppo mine.py:Plain", "mine.py:Plain is not an environment; a subclass of"),
    (
        "train ppo mine.py:NoSpaces",
        "mine.py:NoSpaces has no observation_space; it should be a space of Gymnasium",
    ),
    ("check mine.py:NoneSpace", "mine.py:NoneSpace has no observation_space; it should be a space of Gymnasium"),
    ("train mine.py:ListSpace", "mine.py:ListSpace has a list as action_space; it should be a space of Gymnasium"),
    ("train ppo mine.py:NoParts", r"mine.py:NoParts has actions in Dict\(\), which has no parts; give it some"),
    ("train sac mine.py:Open", r"SAC needs choices beside numbers with bounds, .* -inf to 1 in push; try ppo or a2c"),
    ("train dqn mine.py:Open", r"DQN needs a Discrete action space, and .* has Dict\(go: Discrete\(2\), .*; try ppo"),
    ("train sac mine.py:Crowded", "SAC asks its critics of each combination of choices, 256 at most, .* has 512 in"),
    ("train ppo mine.py:OddMask", "gives an action_mask of dict for actions in Dict.*; it should have 2 entries"),
    ("train ppo mine.py:Needs", "mine.py:Needs needs --env.size VALUE"),
    ("train ppo mine.py:Needs --env.siez 3", "no option 'siez'. Did you mean 'size'"),
    ("train ppo mine.py:OldReset", r"returned float32\[3\] from reset; it should return \(observation, info\)"),
    ("train ppo fails.py:Env", "fails.py could not be imported: ModuleNotFoundError: No module named 'nothere'"),
    ("train ppo syntax.py:Env", r"syntax.py could not be imported: SyntaxError: .*line 1"),
    ("train ppo nothere.py:Env", "There is no file .*nothere.py; give a path like folder/mine.py:Env"),
    ("train ppo file.txt:Env", "There is no module file here"),
    ("train ppo mine:Bas", "mine has no class Bas; it has Base"),
    ("train ppo gymnasium:mine:Mine-v0", "mine registers no Mine-v0 with Gymnasium"),
    ("train ppo gymnasium:CartPole-v9", "Did you mean 'gymnasium:CartPole-v1'"),
    ("train ppo gymnasium:CartPole-v1 --env.gravty 3", "no option 'gravty'; it has flatten"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[words for words, _ in WRONG])
def test_one_sentence(words, said, answer):
    answer(words, said)


OBJECTS = [
    (lambda: None, "made a NoneType; what makes an environment returns one gymnasium.Env"),
    (lambda: 1 / 0, "could not be made: division by zero"),
    (lambda a, b: None, "could not be called with a number of environments: .*; it takes that number"),
    (lambda number: None, "made a NoneType of a number of environments"),
    (["CartPole-v1"], "An environment is an id .*; not a list"),
    ({"id": "CartPole-v1"}, "An environment is an id .*; not a dict"),
    (dict, "dict is not an environment; a subclass of .* works|dict made a dict"),
]


@pytest.mark.parametrize(("environment", "said"), OBJECTS, ids=[said[:40] for _, said in OBJECTS])
def test_what_is_no_environment(environment, said, refuse, train):
    refuse(lambda: train(environment=environment), said)
