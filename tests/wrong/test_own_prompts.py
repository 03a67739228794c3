"""Journey 15: prompts of a file, and reward functions of a user's own."""

import pytest

TRAIN = "train grpo text:sums.jsonl --num-envs 8 --env.response 4 --env.held-out 0 --steps 8 --seeds 1 --quiet"
WRONG = [
    ("train grpo text:nothere.jsonl --rewards mine.py:reward", "There is no file nothere.jsonl"),
    ("train grpo text:bare.jsonl --rewards mine.py:reward", "learns from rows with prompt, and those of .* have text"),
    (TRAIN, "sums.jsonl has prompts, and no function judges the answers to them; name one, as in --rewards mine"),
    ("train ppo CartPole-v1 --rewards mine.py:reward", "judge answers to texts, and CartPole-v1 has none; take text:"),
    (f"{TRAIN} --rewards mine.py:reward --reward-weights 1,2", "There are 1 reward functions and 2 weights"),
    (f"{TRAIN} --rewards mine.py:reward --reward-weights high", "reward-weights is one or more numbers with commas"),
    (f"{TRAIN} --rewards mine.py:reward --rewards.scale 3", "Reward functions have no options, and --rewards.scale is"),
    (f"{TRAIN} --rewards mine.py:reward --env.turns 3", "and no option turns, which prompts with tools have"),
    (f"{TRAIN} --rewards mine.py", "mine.py is a file; name the class or function in it too"),
    (f"{TRAIN} --rewards mine.py:", "mine.py: names no function or class; put its name behind the colon"),
    (f"{TRAIN} --rewards mine.py:reward --env.chat no", "chat of text:.*sums.jsonl is true or false, .* not 'no'"),
    (f"{TRAIN} --rewards mine.py:reward --env.parallel x", "parallel of text:.* is a number, such as 0, not 'x'"),
    ("train grpo text:file.txt --rewards mine.py:reward", "file.txt is no file of rows; they are read from .jsonl"),
    ("train grpo text:mine.py", "text:mine.py names a file; name the class in it too, as in text:mine.py:Name"),
    ("train grpo text:addition --env.tools mine.py", "mine.py is a file; name the tool in it too"),
    ("train grpo text:addition --env.response 4.5", "response of text:addition is a whole number, such as 0, not 4.5"),
    ("train grpo text:addition --env.response -1", "The response of text:addition is 1 token or more, or 0 for"),
    ("train grpo text:addition --env.held-out 2", "text:addition holds out is at least 0 and below 1, not 2"),
    ("train sft --data texts.jsonl --held-out 2", "share of rows that are held out is at least 0 and below 1, not 2"),
    ("train grpo text:addition --group-size 0", "group-size of grpo is 2 or more, not 0"),
    ("train grpo text:addition --model theirs/Small", "is none; .* as in hf download theirs/Small --local-dir Small"),
    ("train grpo text:addition --model adapters", "adapters/adapter_config.json holds no JSON object, but .."),
    (
        "plan sft",
        "forage plan takes an agent and an environment, .* or an agent and data, as in forage plan sft --data",
    ),
    ("plan sft --data texts.jsonl --env.level 2", "A run from data is planned without an environment; leave out --env"),
    ("plan sft --data nothere.jsonl", "nothere.jsonl"),
    ("chat sums.jsonl", "sums.jsonl is a file; name the directory with a transformer."),
    ("evaluate forage CartPole-v1", "A model answers texts, .* text:prompts.jsonl, and CartPole-v1 is no"),
    ("evaluate forage sums.jsonl", "as in forage evaluate forage text:sums.jsonl, and sums.jsonl is no environment"),
    (
        "evaluate another",
        "not the configuration of a run of Forage, but of a model: .* forage chat another talks with it",
    ),
]
# The evaluation before the first step asks for the rewards of 100 answers.
APART = [
    ("rewrad", "mine.py has no function or class rewrad; it has reward"),
    ("Plain,mine.py:reward", "mine.py:Plain is a class, and a reward is a function or an object that is called"),
    ("solves", "mine.py:solves needs a column 'solution', and the rows have answer beside the prompt"),
    ("words", "mine.py:words returned 'good'; it returns one number, or None, for each of the 100 answers"),
    ("one", "mine.py:one returned 1 reward; it returns one number, or None, for each of the 100 answers"),
    (
        "breaks",
        "None of the 100 evaluation episodes of .* has a reward, as mine.py:breaks raised KeyError: .right.",
    ),
    (
        "waits",
        "None of the 100 evaluation episodes of .* has a reward, as mine.py:waits gave no rewards",
    ),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[words[-40:] for words, _ in WRONG])
def test_one_sentence(words, said, answer):
    answer(words, said)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:An answer in .* has no reward:UserWarning")
@pytest.mark.parametrize(("name", "said"), APART, ids=[name for name, _ in APART])
def test_functions_in_their_own_process(name, said, answer):
    answer(f"{TRAIN} --directory begun-here --env.reward-seconds 1 --rewards mine.py:{name}", said)
