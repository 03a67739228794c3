"""RLPA's rewards of a talk by hand: the F1 of the profile, and whether the user would talk on."""

import numpy as np
import pytest

from forage.core.errors import ForageError
from forage_papers.environments.text.rlpa import RLPA


def test_rlpa_pays_for_the_profile_and_the_response():
    game = RLPA(rounds=9)
    game.begin(2)
    mine = game.profile
    turn = "<profile>\n{}</profile>\n\n<response>\n{}\n</response>"
    assert game.reply(turn.format("", "Which day?")) == (f"On {mine['day']}.", 1, False)
    point = f"- day: {mine['day']}\n"
    assert game.reply(turn.format(point, "Which day?"))[1] == pytest.approx(2 / 5)  # one of 4; asked again
    assert game.reply(turn.format(point, f"{mine['day']} it is"))[1] == pytest.approx(2 / 5 + 1)
    assert game.reply(turn.format(point + "- time: noon\n", "dear user"))[1] == pytest.approx(2 / 6)
    assert game.reply("day?") == ("Hm.", 0, False)
    game.begin(2)
    paid = [game.reply(game.expert())[1] for _ in range(6)]
    np.testing.assert_allclose(paid, [1, 2 / 5 + 1, 4 / 6 + 1, 6 / 7 + 1, 2, 2])


def test_a_talk_has_a_round_at_least():
    with pytest.raises(ForageError, match="rounds"):
        RLPA(rounds=0)
