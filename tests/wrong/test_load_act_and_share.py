"""Journey 10: load an agent, act, export it and share it."""

import numpy as np
import pytest

import forage

WRONG = [
    (lambda: forage.load("nowhere"), "nowhere holds no trained agent: it has no agent.npz"),
    (lambda: forage.load("begun"), "begun holds no trained agent"),
    (lambda: forage.load("damaged"), "damaged/agent.npz is not a whole Forage checkpoint"),
    (lambda: forage.load("another"), "is not the configuration of a run of Forage"),
    (lambda: forage.load("no_part"), "Unknown part 'pppo'. Did you mean 'ppo'"),
    (lambda: forage.load("run", seed=9), "run has seeds 3, 7, not 9"),
    (lambda: forage.load("run", seed="a"), "seed is a whole number or None, not 'a'"),
    (lambda: forage.load("run", lr=5), "run has no sweep over lr; it has none"),
    (lambda: forage.load("run", checkpoint="best"), "run has kept no checkpoints"),
    (lambda: forage.load("run", actions="best"), "Actions in evaluation are auto, greedy or sampled"),
    (lambda: forage.load(None), "directory is a text or a path, not None"),
    (lambda: forage.make(5), "An environment's id is a text such as CartPole-v1, not a int"),
    (lambda: forage.make("CartPole-v1", gravity="x"), "gravity of CartPole-v1 is a number, such as 9.8, not 'x'"),
    (lambda: forage.push("nowhere", "a/b"), "nowhere is not a run"),
    (lambda: forage.push("run", "a"), "is called USER/NAME, such as ada/ppo-cartpole, not 'a'"),
    (lambda: forage.push("begun", "a/b"), "begun has nothing to share yet"),
    (lambda: forage.pull(5), "is called USER/NAME, such as ada/ppo-cartpole, not 5"),
    (lambda: forage.pull("a/b", "run"), "run is there already; name another directory"),
]


@pytest.mark.parametrize(("call", "said"), WRONG, ids=[said[:50] for _, said in WRONG])
def test_one_sentence(call, said, refuse):
    refuse(call, said)


OBSERVATIONS = [
    (np.zeros(3), r"has shape \(4,\), not \(3,\); a batch has one axis before it"),
    (np.zeros((2, 3)), r"has shape \(4,\), not \(2, 3\)"),
    ("a", r"is an element of Box\(4,\), not str"),
    ({"a": 1}, r"is an element of Box\(4,\), not dict"),
    ([[1, 2], [3]], r"is an element of Box\(4,\), not list"),
]


def test_what_is_no_observation(refuse):
    policy = forage.load("run", seed=3)
    for observation, said in OBSERVATIONS:
        refuse(lambda seen=observation: policy.act(seen), said)
    refuse(lambda: policy.export("p.txt"), "A policy is exported as .npz, .onnx, .safetensors, and p.txt is none")


SERVED = [
    ("serve", "forage serve takes a run's directory or an exported policy"),
    ("serve run run", "forage serve takes a run's directory or an exported policy"),
    ("serve nowhere", "nowhere is not a run"),
    ("serve begun", "begun holds no trained agent"),
    ("serve file.txt", r"takes a run or an exported policy\.npz or policy\.onnx, and file\.txt is neither"),
    ("serve bad.npz", r"bad\.npz is no whole exported policy"),
    ("serve other.npz", r"other\.npz is no whole exported policy"),
    ("serve other.npz --seed 3", "holds one policy; --seed, --checkpoint and --actions choose among a run's"),
    ("serve run --port 70000", "--port is from 0 to 65,535, not 70,000"),
    ("serve run --port a", "--port is a whole number"),
    ("serve run --max-batch 0", "--max-batch is from 1 to"),
    ("serve run --prot 80", "forage serve has no option '--prot'. Did you mean '--port'"),
    ("serve run --seed 9", "run has seeds 3, 7, not 9"),
    ("serve run --seed 3 --host 203.0.113.9 --port 0", "Cannot listen at 203.0.113.9, port 0: .*another --port works"),
]


@pytest.mark.parametrize(("words", "said"), SERVED, ids=[said[:50] for _, said in SERVED])
def test_a_policy_to_serve(words, said, answer):
    answer(words, said)


IMPORTED = [
    ("import", "forage import takes a model and the environment that it was trained in"),
    ("import bad.npz", "forage import takes a model and the environment that it was trained in"),
    ("import nowhere.zip CartPole-v1", r"There is no file nowhere\.zip; give the model\.zip that model\.save"),
    ("import bad.npz CartPole-v1", r"bad\.npz is no whole model of Stable-Baselines3 \(BadZipFile"),
    (
        "import other.npz CartPole-v1",
        r"other\.npz is no model of Stable-Baselines3: the zip has no data and policy\.pth",
    ),
    ("import bad.npz CartPole-v1 --norm x", "forage import has no option '--norm'. Did you mean '--normalisation'"),
    ("resume nowhere", "nowhere is not a run"),
]


@pytest.mark.parametrize(("words", "said"), IMPORTED, ids=[said[:50] for _, said in IMPORTED])
def test_a_model_to_import(words, said, answer):
    answer(words, said)
