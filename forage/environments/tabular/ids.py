"""The ids of the tabular MDPs."""

from __future__ import annotations

from forage.environments.entry import Entry

ENTRIES: dict[str, Entry] = {
    **{
        f"tabular:RiverSwim-{n}": Entry(
            "tabular.makers:river_swim", f"Swim {n - 1} states against the current.", {"size": n}
        )
        for n in (6, 12, 20)
    },
    "tabular:Chain-5": Entry("tabular.makers:chain", "Strens' chain: a long way to 10, or 2 at once."),
    "tabular:Garnet-20": Entry("tabular.makers:seeded_garnet", "A random MDP of 20 states; --env.seed has others."),
    "tabular:FrozenLake-4": Entry("tabular.makers:frozen_lake", "FrozenLake on the map of 4 x 4.", {"size": 4}),
    "tabular:FrozenLake-8": Entry(
        "tabular.makers:frozen_lake", "FrozenLake on the map of 8 x 8.", {"size": 8, "max_steps": 200}
    ),
    "tabular:DynaMaze": Entry("tabular.makers:dyna_maze", "A maze of 6 x 9 cells, 14 steps from start to goal."),
    "tabular:GridWorld-3x4": Entry("tabular.makers:russell_norvig", "Russell and Norvig's world of 3 x 4 cells."),
}
