"""The ids of the memory and credit probes."""

from __future__ import annotations

from forage.environments.entry import Entry

_SIZES = (("Easy", 1, 4), ("Medium", 2, 32), ("Hard", 3, 64))

ENTRIES: dict[str, Entry] = {
    **{
        f"memory:TMaze-{n}": Entry("memory.tmaze:TMaze", f"Remember a sign for {n} steps.", {"corridor_length": n})
        for n in (10, 50, 100, 500)
    },
    **{
        f"memory:TMazeActive-{n}": Entry(
            "memory.tmaze:TMaze",
            f"Go back for a sign, then remember it for {n + 1} steps.",
            {"corridor_length": n, "oracle_length": 1},
        )
        for n in (10, 50, 100, 500)
    },
    **{
        f"memory:RepeatPrevious{size}": Entry(
            "memory.repeat_previous:RepeatPrevious",
            f"Name the suit of the card shown {k - 1} cards ago.",
            {"num_decks": decks, "k": k},
        )
        for size, decks, k in _SIZES
    },
    **{
        f"memory:Autoencode{size}": Entry(
            "memory.autoencode:Autoencode",
            f"Watch {52 * decks} cards, then recite them backwards.",
            {"num_decks": decks},
        )
        for size, decks, _ in _SIZES
    },
    **{
        f"memory:Umbrella-{n}": Entry(
            "memory.umbrella:Umbrella", f"The first choice pays {n} steps later, after noise.", {"chain_length": n}
        )
        for n in (10, 30, 100)
    },
    **{
        f"memory:MemoryLength-{n}": Entry(
            "memory.memory_chain:MemoryChain", f"Remember one bit for {n - 1} steps.", {"memory_length": n}
        )
        for n in (10, 30, 100)
    },
    **{
        f"memory:MemorySize-{n}": Entry(
            "memory.memory_chain:MemoryChain",
            f"Remember {n} bits, of which one is asked for.",
            {"memory_length": 2, "num_bits": n},
        )
        for n in (5, 10, 20)
    },
    "memory:Discounting": Entry("memory.discounting_chain:DiscountingChain", "Wait 100 steps for a tenth more."),
    "memory:KeyToDoor": Entry("memory.key_to_door:KeyToDoor", "A key opens a door after an orchard of apples."),
}
