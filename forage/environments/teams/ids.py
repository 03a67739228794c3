"""The ids of the games for teams."""

from __future__ import annotations

from forage.environments.entry import Entry

ENTRIES: dict[str, Entry] = {
    "teams:TwoStep": Entry(
        "teams.two_step:TwoStep", "Two agents: one chooses a game for both, then they are paid alike; 8 at best."
    ),
}
