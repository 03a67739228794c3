"""Journey 7: search hyper-parameters, and sweep them."""

import pytest

import forage

TUNE = "tune ppo CartPole-v1 --over"
SWEEP = "train ppo CartPole-v1 --sweep"
WRONG = [
    ("tune ppo", "takes an agent and an environment"),
    ("tune ppo CartPole-v1", "A search needs --over NAME=LOW:HIGH"),
    (f"{TUNE} clip", "--over takes NAME=LOW:HIGH"),
    (f"{TUNE} clip=0.1", "needs two different values or more, not 0.1"),
    (f"{TUNE} clip=0.3:0.1", "takes a lower end below the upper one, not 0.3:0.1"),
    (f"{TUNE} clip=0:1:log", "and above 0, not 0:1:log"),
    (f"{TUNE} clip=0.1:0.2:lin", "takes LOW:HIGH or LOW:HIGH:log"),
    (f"{TUNE} lr=1e-4:1e-2", "no hyper-parameter 'lr'. Did you mean 'learning_rate'"),
    (f"{TUNE} learning-rate=-1:1", "learning-rate of ppo is 0 or more, not -1"),
    (f"{TUNE} num-envs=0,1", "num-envs of ppo is 1 or more, not 0"),
    (f"{TUNE} clip=0.1,0.2 --over clip=0.3,0.4", "--over names one twice"),
    (f"{TUNE} clip=0.1,0.2 --method grid", "A search is by tpe, random, hyperband, pbt, not 'grid'"),
    (f"{TUNE} clip=0.1,0.2 --trials 0", "A search takes 1 trial or more, not 0"),
    (f"{TUNE} clip=0.1,0.2 --seeds 0,1", "Seeds for tuning and for testing are to be different"),
    (f"{TUNE} clip=0.1,0.2 --directory run", "run holds a run; name another directory"),
    (f"{TUNE} clip=0.1,0.2 --n-trials 5", "'--n-trials'. Did you mean '--trials'"),
    ("tune sac CartPole-v1 --over polyak=0.1,0.2", "SAC needs a continuous, bounded action space"),
    (f"{SWEEP} learning-rate=", "A sweep takes one or more different values"),
    (f"{SWEEP} =1,2", "A sweep is over a number of the agent, not ''"),
    (f"{SWEEP} lr=1e-3,1e-4", "not 'lr'. Did you mean 'learning_rate'"),
    (f"{SWEEP} learning-rate=1e-4:1e-2", "--sweep is one or more numbers with commas between them"),
    (f"{SWEEP} learning-rate=1e-3,1e-3", "one or more different values"),
    (f"{SWEEP} learning-rate=nan,1", "learning-rate of ppo is 0 or more, not nan"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[words for words, _ in WRONG])
def test_one_sentence(words, said, answer):
    answer(words, said)


CALLS = [
    ((), {}, "A search needs --over"),
    (("clip=0.1,0.2",), {}, "space is a list of texts, not 'clip=0.1,0.2'"),
    (([("clip", 0.1, 0.2)],), {}, "space is a list of texts, not"),
    ((["clip=0.1,0.2"],), {"trials": "5"}, "trials is a whole number, not '5'"),
    ((["clip=0.1,0.2"],), {"trials": 2.5}, "trials is a whole number, not 2.5"),
    ((["clip=0.1,0.2"],), {"seeds": "a"}, "Seeds are one or more"),
]


@pytest.mark.parametrize(("space", "more", "said"), CALLS)
def test_from_python(space, more, said, refuse):
    refuse(lambda: forage.tune("ppo", "CartPole-v1", *space, **more), said)
