"""Journey 7: search hyper-parameters, sweep them, and run studies."""

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
    (
        f"{TUNE} clip=0.1,0.2 --storage redis",
        "A storage is journal, sqlite, or the address of a database .*not 'redis'",
    ),
    (f"{TUNE} clip=0.1,0.2 --storage journal --method pbt", "A population is one program"),
    ("tune sac CartPole-v1 --over polyak=0.1,0.2", "SAC needs a continuous, bounded action space"),
    ("study", "takes a file, a study's directory, or agents x environments x seeds"),
    ("study ppo CartPole-v1", "takes a file, a study's directory, or agents x environments x seeds"),
    ("study ppo x", "There is no file|takes a file, a study's directory"),
    ("study ppo x CartPole-v1 x many", "Seeds of a study are how many, such as 5, or which, .*not 'many'"),
    ("study ppoo x CartPole-v1", "Unknown agent 'ppoo'"),
    ("study sac x CartPole-v1", "sac in CartPole-v1: SAC needs a continuous, bounded action space"),
    ("study ppo x CartPole-v1 --seeds 3", "Seeds of a study stand in its file, or after an x"),
    ("study ppo x CartPole-v1 --learning-rate 1", "no option '--learning-rate'.*Options of an agent stand in a file"),
    ("study ppo x CartPole-v1 --jobs many", "Jobs are a number of processes, such as 4, or ray:4 .*not 'many'"),
    ("study ppo x CartPole-v1 --directory run", "run holds a run; name another directory, where a study can be kept"),
    ("study ppo x CartPole-v1 --from run", "A study has no --from"),
    ("study nothing.toml", "There is no file and no study at nothing.toml"),
    ("study empty", "empty holds no study: it has no study.json"),
    ("study bad.toml", "bad.toml is not TOML"),
    ("study study.toml", "Seeds are one or more different whole numbers"),
    ("study pairs.toml", "sac in CartPole-v1: SAC needs"),
    ("study study.toml --steps 3", "Settings of a study stand in its file; put steps into study.toml"),
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
