"""Journey 9: callbacks, trackers, and the ends and checkpoints of a run."""

import pytest

import forage


class NoTracker:
    pass


WRONG = [
    ({"callbacks": print}, "callbacks is a list of functions of a run's view, .*; not a builtin_function_or_method"),
    ({"callbacks": [5]}, "callbacks is a list of functions"),
    ({"callbacks": {"a": print}}, "callbacks is a list of functions .*; not a dict"),
    ({"callbacks": "stop"}, "callbacks is a list of functions .*; not a str"),
    ({"track": 5}, "A tracker is a name such as 'wandb' or a class, not a int"),
    ({"track": ["csv", 5]}, "A tracker is a name such as 'wandb' or a class, not a int"),
    ({"track": "tensorbord"}, "Unknown tracker 'tensorbord'. Available: tensorboard"),
    ({"track": NoTracker}, "NoTracker is not a tracker: it has no write and no close"),
    ({"stop_at": "high"}, "stop_at is a number or None, not 'high'"),
    ({"stop_at": 5}, "goes by evaluations during training; say how often"),
    ({"stop_at": float("nan")}, "A run stops at a score that is a number, not nan"),
    ({"keep": True}, "keep is a text or None, not True"),
    ({"keep": "last"}, "A run can keep the best of its evaluations"),
    ({"keep_every": "often"}, "keep_every is a whole number or None, not 'often'"),
    ({"keep_every": -1}, "1 or more, not -1"),
]


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[str(arguments)[:50] for arguments, _ in WRONG])
def test_one_sentence(arguments, said, refuse, train):
    refuse(lambda: train(**arguments), said)


def test_what_cannot_be_registered(refuse):
    refuse(lambda: forage.register_tracker("mine", NoTracker), "mine is not a tracker: it has no write and no close")
