"""Questions that are answered by searching: played by hand, in both stages of rewards."""

import pytest

from forage.core.errors import ForageError
from forage.environments.text.games.search_qa import SearchQA, overlap


def play(game: SearchQA, *texts: str, seed: int = 3) -> tuple[float, bool]:
    game.begin(seed)
    for text in texts:
        _, reward, over = game.reply(text)
    return reward, over


def test_an_expert_searches_and_is_right():
    game = SearchQA(hops=3, people=6)
    for seed in range(20):
        asked, found = game.begin(seed), ""
        assert asked.count("the friend of") == 2 and asked.endswith(f"{game.chain[0]} live?")
        for hop in range(3):
            assert game.answer not in asked
            found, reward, over = game.reply(game.expert())
            assert game.chain[hop] in found and reward == 0 and not over
            assert hop == 2 or f"a friend, {game.chain[hop + 1]}" in found
        assert f"lives in {game.answer}" in found
        assert game.reply(game.expert()) == ("", 1.0, True)


def test_rewards_by_hand():
    call = "<call>search: Ada</call>"
    assert play(SearchQA(stage=1), call, "<answer>x</answer>") == (1.0, True)
    assert play(SearchQA(stage=1), "<answer>x</answer>") == (0.5, True)  # of the right form, without a search
    assert play(SearchQA(stage=1), call, "no answer") == (0.5, True)
    assert play(SearchQA(stage=1), "<call>Ada</call>", "<answer>x</answer>") == (0.0, True)  # a call without a tool
    assert play(SearchQA(), call, "<answer>x</answer>") == (0.0, True)
    assert play(SearchQA(), call, "x") == (-2.0, True)
    assert play(SearchQA(), f"<result>x</result>{call}", "<answer>x</answer>") == (-2.0, True)  # made up
    assert play(SearchQA(), call, call, call) == (-2.0, True)  # no text is left
    assert overlap(["in", "rome"], ["rome"]) == pytest.approx(2 / 3)


def test_it_tells_what_both_stages_are_made_of():
    game = SearchQA()
    game.begin(3)
    game.reply("<call>search: Ada</call>")
    assert game.told == {"executed": 1}
    game.reply(f"<answer>in {game.answer}</answer>")
    assert game.told == {"executed": 1, "searched": 1, "form": 1, "overlap": pytest.approx(2 / 3)}
    game.begin(3)
    game.reply(game.answer)
    assert game.told == {"executed": 0, "searched": 0, "form": 0, "overlap": 0}


def test_what_cannot_be_is_refused():
    with pytest.raises(ForageError, match="from 1 to 2"):
        SearchQA(stage=3)
    with pytest.raises(ForageError, match="from 1 to 4"):
        SearchQA(hops=5, people=4)
