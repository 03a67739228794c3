"""Twenty questions and guess my city: costs, answers and an expert's play."""

import pytest

from forage_papers.environments.text.questions import GuessCity, TwentyQuestions


def test_questions_cost_one_but_the_right_guess():
    game = TwentyQuestions(tries=4)
    seed = next(seed for seed in range(99) if game.begin(seed) and game.word == "cat")
    assert game.reply("Is it an animal?") == ("Yes.", -1, False)
    assert game.reply("Is it a dog, an animal?") == ("No.", -1, False)  # a guess
    assert game.reply("Is this a question?") == ("No.", -1, False) and game.told == {"executed": 0, "found": 0}
    assert game.reply("Is it big?") == ("No.", -1, True)  # the last one
    game.begin(seed)
    assert game.reply("a CAT") == ("Yes.", 0, True) and game.told == {"executed": 1, "found": 1}


@pytest.mark.parametrize("kind", [TwentyQuestions, GuessCity])
def test_an_expert_needs_few_questions(kind):
    costs, game = [], kind()
    for seed in range(100):
        game.begin(seed)
        paid, over = 0, False
        while not over:
            _, reward, over = game.reply(game.expert())
            paid += reward
        costs.append(paid)
    assert len(game.facts) == 24 and game.told["found"] and min(costs) >= -8 and -5.5 < sum(costs) / 100 < -3
