"""Games of search, played by hand: a state that is rewritten, and judged results."""

import numpy as np
import pytest

from forage.core.errors import ForageError
from forage.environments.text.environment import TextEnvironment
from forage_papers.environments.text.mem1 import MEM1
from forage_papers.environments.text.reseek import ReSeek

GAMES = "forage_papers.environments.text"


def write(environment: TextEnvironment, text: str) -> str:
    """Take a step with a text, and return the context after it in words."""
    tokens = [*environment.tokenizer.encode(text), environment.ends]
    action = np.zeros((1, environment.answer), np.int32)
    action[0, : len(tokens)] = np.array(tokens) + 1
    context = environment.step(action)[1]["context"][0]
    return environment.tokenizer.decode((context[context > 0] - 1).tolist(), special=True)


def test_mem1_reads_the_question_and_its_last_state_alone():
    environment = TextEnvironment(f"{GAMES}.mem1:MEM1", 1, objectives=3)
    environment.reset(0)
    game = environment.worlds[0].played
    first = write(environment, f"Hm. <think>one</think><call>search: {game.asked[0]}</call>")
    assert first.startswith(f"{game.question}\n<think>one</think><call>") and "Hm." not in first
    assert "3 turns left." in first and f"{game.asked[0]} lives in" in first
    second = write(environment, "<think>two</think><call>search: nobody</call>")
    assert second.startswith(f"{game.question}\n<think>two</think>") and "one" not in second
    assert f"{game.asked[0]} lives in" not in second and "2 turns left." in second
    assert environment.expert_episode().reward == 3


def test_mem1_pays_each_answer_in_its_place():
    game = MEM1(objectives=2)
    for said, paid in (("{0}; {1}", 2), ("{0}", 1), ("{0}; Bern", 1), ("Bern; {0}", 0), ("{0}; {1}; Bern", 2)):
        game.begin(5)
        homes = [game.corpus.homes[name] for name in game.asked]
        assert game.reply(f"<answer>{said.format(*homes)}</answer>") == ("", paid, True)
    game.begin(5)
    assert game.reply("neither call nor answer") == ("", 0, True)


def test_reseek_drops_what_is_judged_bad_and_pays_right_judgements():
    environment = TextEnvironment(f"{GAMES}.reseek:ReSeek", 1, match=0.25, mismatch=0.75)
    environment.reset(0)
    game = environment.worlds[0].played
    other = next(name for name in game.toolbox.tools[0].documents if name != game.chain[0])
    told = f"{game.chain[0]} lives in {game.answer}."
    assert f"{other} lives in" in write(environment, f"<call>search: {other}</call>")
    after = write(environment, "<judge>bad</judge>")
    assert f"search: {other}" in after and "lives in" not in after and "judge" not in after
    write(environment, f"<call>search: {game.chain[0]}</call>")
    assert told in write(environment, "<judge>good</judge>")
    assert environment.worlds[0].played.agreed == [1, 1]
    assert environment.expert_episode().reward == 1.25


@pytest.mark.parametrize(("said", "paid", "kept"), [("good", 0.5, True), ("bad", -0.5, False), ("", -0.5, True)])
def test_a_judgement_by_hand(said, paid, kept):
    game = ReSeek()
    game.begin(3)
    game.reply(f"<call>search: {game.chain[0]}</call>")
    after, reward, over = game.reply(f"<judge>{said}</judge>")
    assert (reward, over, game.answer in after) == (paid, False, kept)
    assert game.reply(f"<answer>{game.answer}</answer>") == ("", 1, True)
    assert game.told == {"executed": 1, "agreed": float(paid > 0), "right": 1}


def test_what_cannot_be_is_refused():
    with pytest.raises(ForageError, match="from 1 to 4"):
        MEM1(objectives=5, people=4)
    with pytest.raises(ForageError, match="0 or more"):
        ReSeek(match=-1)
