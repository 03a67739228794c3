"""Journey 4: resume a run, and begin with another one's weights."""

import pytest

import forage

WRONG = [
    ("resume torn", "torn/config.json cannot be read"),
    ("resume a_list", "a_list/config.json is not the configuration of a run of Forage: it has no 'agent'"),
    ("resume no_settings", "is not the configuration of a run of Forage"),
    ("resume another", "is not the configuration of a run of Forage"),
    ("resume no_part", "Unknown part 'pppo'. Did you mean 'ppo'"),
    ("resume gone", "Unknown environment 'CartPole-v7'. Did you mean 'CartPole-v1'"),
    ("resume without", "without has learned until step 160, and its checkpoints are gone; train anew in another"),
    ("resume empty", "empty is not a run: it has no config.json"),
    ("resume file.txt", "file.txt is not a run"),
    ("resume run run", "takes one run's directory"),
    ("resume run --steps 100", "--steps is the new total, 160 or more, not 100"),
    ("resume run --steps 1e15", "from 1 to .* steps of each seed"),
    ("resume run --seeds 5", "forage resume has no option '--seeds'"),
    ("resume run --data other.npz", "does not learn from a data set; leave out --data"),
    ("train --from nowhere", "nowhere is not a run"),
    ("train --from another", "is not the configuration of a run of Forage"),
    ("train --from begun --steps 64", "begun holds no trained agent: it has no agent.npz"),
    ("train --from damaged --steps 64", "damaged/agent.npz is not a whole Forage checkpoint"),
    (
        "train --from run dqn CartPole-v1",
        "dqn begins to learn after 1,000 steps .learning_starts., and this run has 160",
    ),
    (
        "train --from run Pendulum-v1 --steps 64",
        r"which shows Box\(4,\) and takes Discrete\(2\), and Pendulum-v1 shows Box\(3,\) and takes Box\(1,\);",
    ),
    (
        "train --from run minatar:Breakout --steps 64",
        r"and minatar:Breakout shows Box\(10, 10, 4\) and takes Discrete\(3\);",
    ),
    (
        "train --from run mine.py:Base --steps 64",
        r"which shows Box\(4,\), and mine.py:Base shows Box\(3,\); its weights fit",
    ),
    (
        "train --from run --hidden-sizes 16 --steps 64",
        r"weight is float32\[2, 4, 8\] there and float32\[2, 4, 16\] here",
    ),
    ("train --from run --with-memory --steps 64", "keeps none; leave it out"),
    ("train --with-memory CartPole-v1", "name that run with --from RUN"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[words for words, _ in WRONG])
def test_one_sentence(words, said, answer):
    answer(words, said)


CALLS = [
    (lambda: forage.resume("run", steps="1k5"), "steps is a whole number such as 500_000 or '500k', not '1k5'"),
    (lambda: forage.resume("run", steps=1.5), "steps is a whole number"),
    (lambda: forage.resume("run", seeds=5), "forage.resume has no option 'seeds'; a run keeps what it was made with"),
    (lambda: forage.resume("run", learning_rate=3), "forage.resume has no option 'learning_rate'"),
    (lambda: forage.resume(None), "directory is a text or a path, not None"),
    (lambda: forage.resume("run", display="loud"), "A display is auto"),
    (lambda: forage.resume("run", rewards=5), "rewards takes a forage.core.ports.Rewards or its name"),
    (lambda: forage.train(start_from=5), "A run is named by its directory, a text or a path, not by a int"),
]


@pytest.mark.parametrize(("call", "said"), CALLS, ids=[said[:50] for _, said in CALLS])
def test_from_python(call, said, refuse):
    refuse(call, said)
