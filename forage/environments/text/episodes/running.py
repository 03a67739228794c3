"""The episodes that run side by side: they begin, take turns, end, and are saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from jaxtyping import Bool

from forage.environments.text.episodes.course import Course, EpisodeSlot, Limits, save_slot
from forage.environments.text.episodes.judge import Judgement
from forage.environments.text.episodes.record import Record
from forage.environments.text.process import processors
from forage.environments.text.worlds import Start, WorldReply

INFO = ("format", "truth", "turns", "tokens", "overflow", "unfinished")


class RunningEpisodes:
    """The episode of each world, its record in words, and its judgement once it is over."""

    def __init__(
        self, course: Course, worlds: Sequence[Any], roles: int = 0, shows_room: bool = False, parallel: int = 0
    ):
        """Make a place for each world.

        Args:
            course: The properties shared by all episodes.
            worlds: One for each episode.
            roles: The number of roles that take turns; 0 for one policy.
            shows_room: Observations have the number of tokens that the next text may have.
            parallel: Texts that are answered at a time where other processes answer them; 0 for one a processor.
        """
        self.course, self.worlds, self.roles, self.shows_room = course, worlds, roles, shows_room
        count = len(worlds)
        self.limits = [Limits()] * count
        self.slots = [EpisodeSlot(Start(0, 0))] * count
        self.records = [Record() for _ in range(count)]
        self.unscored = np.zeros(count, bool)  # episodes under way whose answer got no reward
        self.failed = np.zeros(count, bool)  # and of those the ones on which a function failed
        at_a_time = min(parallel or processors(), count)
        self.threads = ThreadPoolExecutor(at_a_time) if worlds[0].waits and at_a_time > 1 else None

    @property
    def ended(self) -> Bool[np.ndarray, " env"]:
        """Return a mask of the episodes that have taken all of their steps."""
        return np.array([slot.turn == self.course.turns for slot in self.slots])

    def begin(self, index: int, start: Start, hint: float = 0.0) -> None:
        """Begin an episode in the world `index`."""
        prompt = self.worlds[index].begin(start)
        self.slots[index] = slot = self.course.begin_episode(
            self.worlds[index], start, prompt, hint, self.limits[index]
        )
        self.records[index].begin(prompt, slot.read.tokens)
        self.unscored[index] = self.failed[index] = False

    def end(self, index: int) -> None:
        """End the record of an episode."""
        self.records[index].end(self.worlds[index], self.slots[index].said, self.slots[index].cut)

    # Turns

    def take_turns(self, action: np.ndarray, note: Callable[[int], None]) -> list[EpisodeSlot]:
        """Advance all episodes by a turn, and return those before it.

        Replies that wait for other processes are computed side by side. `note` is called with the number of each
        episode before its turn, for errors.
        """
        before = self.slots
        if self.threads is None:
            after = []
            for index, tokens in enumerate(action):
                note(index)
                after.append(self.take_turn(index, tokens))
        else:
            after = self.wait_for_turns(self.threads, action, note)
        self.slots = after
        return before

    def wait_for_turns(
        self, threads: ThreadPoolExecutor, action: np.ndarray, note: Callable[[int], None]
    ) -> list[EpisodeSlot]:
        """Return all episodes after a turn, each taken by one of the threads."""
        asked = [threads.submit(self.take_turn, index, tokens) for index, tokens in enumerate(action)]
        found = []
        try:
            for index, one in enumerate(asked):
                note(index)
                found.append(one.result())
        finally:
            for one in asked:
                one.cancel()
        return found

    def take_turn(self, index: int, tokens: np.ndarray) -> EpisodeSlot:
        """Return an episode after a turn's tokens."""
        return self.course.apply_turn(self.slots[index], tokens, lambda text: self.reply(index, text))

    def reply(self, index: int, text: str) -> WorldReply:
        """Return a world's reply to a text, and record both in words."""
        said = self.worlds[index].reply(text)
        self.records[index].add(text, said)
        return said

    def apply(self, index: int, judgement: Judgement) -> None:
        """Give an episode the reward of its judgement."""
        self.slots[index] = self.slots[index]._replace(said=judgement.said)
        self.unscored[index], self.failed[index] = judgement.lost, judgement.failed
        self.records[index].judge(judgement.said, judgement.notes, judgement.lost)

    def outcomes(self, before: Sequence[EpisodeSlot], names: Sequence[str]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the rewards of a turn and the numbers of the episodes by name, NaN where there is none.

        `before`: the episodes before the turn.
        """
        rewards = np.zeros(len(before), np.float32)
        info = {one: np.full(len(before), np.nan, np.float32) for one in (*INFO, *names)}
        ended = self.ended
        for index, (slot, after) in enumerate(zip(before, self.slots, strict=True)):
            rewards[index] = 0 if slot.over else after.said.reward
            if not slot.over or ended[index]:
                for one, value in after.said.told.items():
                    info[one][index] = value
            if ended[index]:
                written, open_ended = sum(map(len, after.written)), self.course.is_unfinished(after)
                values = after.said.format, after.said.truth, len(after.written), written, after.cut, open_ended
                for one, value in zip(INFO, values, strict=True):
                    info[one][index] = value
        return rewards, {one: info[one] for one in names}

    # Observations

    def contexts(self) -> dict[str, np.ndarray]:
        """Return the observations of all episodes."""
        seen = [self.context(index) for index in range(len(self.slots))]
        return {name: np.stack([one[name] for one in seen]) for name in seen[0]}

    def context(self, index: int) -> dict[str, np.ndarray]:
        """Return the observation of one episode."""
        slot = self.slots[index]
        role = {"role": np.array(slot.turn % self.roles, np.int32)} if self.roles else {}
        role |= {"room": np.array(self.course.room(slot), np.int32)} if self.shows_room else {}
        return self.course.episode_context(slot, self.worlds[index]) | role

    def set_prefix(self, index: int, tokens: np.ndarray) -> None:
        """Set the tokens that the next text of an episode begins with."""
        self.slots[index] = self.course.set_prefix(self.slots[index], self.course.words.trim_action(tokens))

    # States

    def save(self, index: int) -> dict[str, Any]:
        """Return an episode as JSON, with its judgement if it is over and waits for other episodes."""
        slot, record = self.slots[index], self.records[index]
        if not (slot.over and record.judged):
            return save_slot(slot)
        judged = Judgement(slot.said, bool(self.unscored[index]), bool(self.failed[index]), record.notes)
        return save_slot(slot) | {"judged": judged.to_plain()}

    def replay(self, index: int, saved: Mapping[str, Any]) -> None:
        """Restore an episode by replaying the texts written in it."""
        self.limits[index] = Limits(*saved.get("limits", ()))
        self.begin(index, Start(*saved["start"]), saved.get("hint", 0.0))
        for tokens in saved["written"]:
            self.slots[index] = self.take_turn(index, np.array(tokens, np.int32) + 1)
        self.slots[index] = self.slots[index]._replace(turn=saved["turn"])
        if judged := saved.get("judged"):
            self.apply(index, Judgement.from_plain(judged, self.slots[index].said))
        if saved.get("prefix"):
            self.slots[index] = self.course.set_prefix(self.slots[index], tuple(saved["prefix"]))

    def close(self) -> None:
        """End the threads, and close the worlds."""
        if self.threads is not None:
            self.threads.shutdown(wait=False, cancel_futures=True)
        for world in self.worlds:
            world.close()
