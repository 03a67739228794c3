"""Journey 11: record data, and learn from it."""

import pytest

RECORD = "data record run --steps 10 --output"
WRONG = [
    ("data", "forage data has no action by that name. Available: make, record, convert, label, show, describe"),
    ("data recrod run --steps 10 --output x.npz", "forage data has no action recrod. Did you mean 'record'"),
    ("data record run", "needs --steps N"),
    ("data record run --steps 10", "needs --output FILE"),
    ("data record run --steps 0 --output x.npz", "A data set has 1 transition or more, not 0"),
    ("data record run --steps 1e15 --output x.npz", "A data set has at most 1,000,000,000 transitions"),
    ("data record nowhere --steps 10 --output x.npz", "nowhere is not a run"),
    (f"{RECORD} x.csv", "A data set is an .npz file, and x.csv is none"),
    (f"{RECORD} x.npz --random 2", "from 0 to 1, not 2"),
    (f"{RECORD} x.npz --actions best", "greedy, sampled or random, not 'best'"),
    (f"{RECORD} x.npz --seed 99", "run has seeds 3, 7, not 99"),
    (f"{RECORD} x.npz --start -1", "The start of a data set is 0 or more, not -1"),
    ("train iql --data log.csv", "which columns of log.csv are the action; say --action order, as its name suggests"),
    ("train iql --data log.csv --action orders", "log.csv has no column 'orders'. Did you mean 'order'"),
    ("train iql --data log.csv --action x --reward order", "Column order is to be the reward and has a, b, which"),
    ("train iql --data log.csv --action order --reward paid --episode x", "1 episodes go on after rows of others"),
    ("data describe log.csv --action order,orders", "log.csv has no column 'orders'. Did you mean 'order'"),
    ("train iql --data bad.npz --action order", "itself says what its arrays are; leave action out"),
    ("train iql CartPole-v1 --action push", "--action says how a table is read; name the table with --data FILE"),
    ("train iql Pendulum-v1 --data nothere.npz", "There is no data set .*; forage data record RUN --output FILE"),
    ("train iql Pendulum-v1 --data empty", "empty is a folder and no data set"),
    ("train iql Pendulum-v1 --data file.txt", "is not a whole data set; forage data record RUN"),
    ("train iql Pendulum-v1 --data bad.npz", "is not a whole data set; forage data record RUN"),
    ("train iql Pendulum-v1 --data other.npz", "has no header of a data set"),
    ("train iql gymnasium:Pendulum-v1 --data bad.npz", "is not a whole data set; forage data record RUN"),
    ("train iql --data logs.csv", "There is no file logs.csv. Did you mean 'log.csv'"),
    ("data convert nothere.parquet x.npz", "There is no file nothere.parquet; give the path of a table"),
    ("train iql --data bad.npz", "is not a whole data set"),
    ("train iql Pendulum-v1 --evaluate CartPole-v1 --data bad.npz", "--evaluate names an environment for a run from"),
    ("train iql Pendulum-v1 --held-out 0.1", "held_out is a share of a data set"),
    ("data describe nothere.csv", "There is no file nothere.csv; give the path of a table that is there"),
    ("data describe other.npz", "is no table; forage data describe takes a .csv or a .parquet file"),
    ("train sft --data nothere.jsonl", "There is no file nothere.jsonl"),
    ("train sft --data broken.jsonl", "has a row that cannot be read: line 1 is no JSON"),
    ("train sft --data roles.jsonl", "line 1 has a message of the role 'robot' in messages; roles are system"),
    ("train sft --data pairs.jsonl", "sft learns from rows with messages or prompt and completion or text, and those"),
    ("train dpo --data texts.jsonl", "dpo learns from rows with chosen and rejected, and those .*; sft learns from"),
    ("train dpo --data pairs.jsonl --memory uniform", "Recorded text takes the place of a memory; leave out --memory"),
    ("train dpo --data pairs.jsonl --model nowhere", "A model is forage, a directory with a transformer, or a run"),
    ("train dpo text:addition", "DPO learns from recorded text alone; name a file with --data FILE"),
    ("train ppo --data texts.jsonl", "ppo does not learn from recorded text, which texts.jsonl holds; sft learns from"),
    ("train iql --data chat.jsonl", "iql does not learn from recorded text"),
    ("train --data odd.jsonl", "The rows of odd.jsonl have colour, from which no agent learns by itself"),
    ("train --data prompts.jsonl", "The rows of prompts.jsonl have prompt, from which no agent learns by itself"),
    ("train sft --data chat.jsonl", "has no chat template"),
    (
        "train dpo",
        "dpo learns from recorded text; name a file with --data FILE, such as forage train dpo --data rows.jsonl",
    ),
    ("train iql Pendulum-v1 --data run/agent.npz", "is not a whole data set; forage data record RUN"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[words for words, _ in WRONG])
def test_one_sentence(words, said, answer):
    answer(words, said)
