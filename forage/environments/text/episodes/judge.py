"""The episodes of an environment of texts as arguments of reward functions, and the judgement on each.

An episode is judged with its last text. Where a single text answers a text, a completion is a text. In conversations,
and where prompts are messages, it is the list of messages behind the prompt, as in TRL 1.16: those of the assistant,
with its calls as `tool_calls`, and between them the answers of tools or of a game. `completion_ids` are then all tokens
behind the prompt, and a result that no longer fitted into the context is left out of both.

In place of a verifier count the functions alone; the reward of a game, or of `get_reward`, counts beside them with the
weight 1, as one more function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from forage.core.text.dialogue import Dialogue, Message
from forage.core.types import Clock
from forage.environments.text.episodes.course import EpisodeSlot, Words
from forage.environments.text.episodes.record import Record
from forage.environments.text.own.prompts import NO_COLUMNS, PromptWorld
from forage.environments.text.own.scoring import SECONDS, Scorer
from forage.environments.text.worlds import World, WorldReply

REWARD = "reward_"  # the beginning of the name of a number that a reward function gave
UNSCORED = "unscored"  # the name of the number that is 1 for an answer to which every function returned None


class FinishedEpisode(NamedTuple):
    """An episode whose last text was written."""

    world: World
    slot: EpisodeSlot
    record: Record


class Judgement(NamedTuple):
    """The rewards of an episode."""

    said: WorldReply  # the reply to the last text, with their rewards
    lost: bool = False  # it has no reward
    failed: bool = False  # as a function failed
    notes: Mapping[str, str] = {}  # what functions logged beside it

    def to_plain(self) -> dict[str, Any]:
        """Return the judgement as JSON, without the parts of the reply that a world gives again."""
        said = {"reward": self.said.reward, "told": dict(self.said.told), "words": self.said.words}
        return said | {"lost": self.lost, "failed": self.failed, "notes": dict(self.notes)}

    @classmethod
    def from_plain(cls, kept: Mapping[str, Any], said: WorldReply) -> Judgement:
        """Return a judgement from its JSON. `said`: the world's reply to the last text."""
        said = said._replace(reward=kept["reward"], told=kept["told"], words=kept["words"])
        return cls(said, kept["lost"], kept["failed"], kept["notes"])


class Judge:
    """Reward functions, called with the episodes of an environment."""

    def __init__(
        self,
        world: World,
        words: Words,
        rewards: Sequence[str] | str,
        weights: Sequence[float] | float = (),
        seconds: float = SECONDS,
        level: int = 0,
        in_turns: bool = False,
    ):
        """Load the functions. `in_turns`: an episode may have several texts. `level`: of an example."""
        self.words, self.in_turns, self.pays = words, in_turns, world.pays
        self.columns = tuple(name for name in world.columns(level) if name not in NO_COLUMNS)
        targets = rewards.split(",") if isinstance(rewards, str) else [str(one) for one in rewards]
        each = [weights] if isinstance(weights, int | float) else list(weights)
        known = (*self.columns, *(["environments"] if world.played is not None else []))
        self.scorer = Scorer(targets, each, known, seconds, world.pays)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the numbers in an episode's info."""
        return (*(REWARD + one for one in self.scorer.names), UNSCORED)

    def judge(self, episodes: Sequence[FinishedEpisode], state: Mapping[str, Any]) -> list[Judgement]:
        """Return the judgement on each of some episodes. `state`: the fields of `trainer_state`."""
        asked = [self.prompt(one) for one in episodes]
        batch: dict[str, list[Any]] = {name: [one.world.row.get(name) for one in episodes] for name in self.columns}
        batch |= {"prompts": asked, "completions": [self.completion(one) for one in episodes]}
        batch["completion_ids"] = [self.completion_ids(one) for one in episodes]
        if all(one.world.played is not None for one in episodes):
            batch["environments"] = [one.world.played for one in episodes]
        own = [sum(one.record.rewards[:-1]) + one.slot.said.reward for one in episodes] if self.pays else None
        scored = self.scorer.score(batch, state, own)
        found = []
        for place, one in enumerate(episodes):
            values = dict(zip(self.scorer.names, scored.each[place].tolist(), strict=True))
            words = ", ".join(
                f"{name} {value:g}" if value == value else f"{name} none" for name, value in values.items()
            )
            lost, failed = bool(scored.lost[place]), bool(scored.failed[place])
            told = {**one.slot.said.told, **{REWARD + name: value for name, value in values.items()}}
            told[UNSCORED] = float(lost and not failed)
            # What a game paid for earlier texts has been paid.
            paid = float(scored.reward[place]) - (sum(one.record.rewards[:-1]) if self.pays and not lost else 0.0)
            said = one.slot.said._replace(reward=paid, told=told, words=words)
            notes = {name: column[place] for name, column in scored.extras.items()}
            found.append(Judgement(said, lost, failed, notes))
        return found

    def as_messages(self, episode: FinishedEpisode) -> bool:
        """Return whether prompt and completion of an episode are messages."""
        return self.in_turns or self.words.form.chat or isinstance(episode.record.prompt, Dialogue)

    def prompt(self, episode: FinishedEpisode) -> Any:
        """Return the prompt of an episode: that of its row as the row has it, or else the first text."""
        world = episode.world
        prompt = world.row["prompt"] if isinstance(world, PromptWorld) else episode.record.prompt
        if isinstance(prompt, Dialogue):
            return [dict(one) for one in prompt.messages]
        if isinstance(prompt, str) and self.as_messages(episode):
            return [{"role": "user", "content": prompt}]
        return prompt

    def completion(self, episode: FinishedEpisode) -> str | list[Message]:
        """Return the completion of an episode: a text, or the messages behind the prompt."""
        texts = self.texts(episode.slot)
        if not self.in_turns:
            said = self.decode(texts[0])
            return [{"role": "assistant", "content": said}] if self.as_messages(episode) else said
        found: list[Message] = []
        for place, tokens in enumerate(texts):
            found.append(self.message(episode.world, tokens))
            if place + 1 < len(texts):
                reply = episode.record.replies[place]
                found += reply.results or [{"role": "user", "content": reply.text}]
        return found

    def message(self, world: World, tokens: Sequence[int]) -> Message:
        """Return a text of the policy as a message."""
        if world.toolbox is None:
            return {"role": "assistant", "content": self.decode(tokens)}
        found = dict(world.toolbox.message(self.words.decode(tokens)))
        if "tool_calls" not in found:
            return {**found, "content": self.decode(tokens)}
        if self.words.tokenizer.hides_special:
            for name in self.words.tokenizer.special:
                found["content"] = found["content"].replace(name, "")
        return found

    def texts(self, slot: EpisodeSlot) -> list[tuple[int, ...]]:
        """Return the tokens of each text of an episode, of which the first begins with a hint."""
        if not self.in_turns:
            return [(*slot.given, *(token for part in slot.written for token in part))]
        return [(*(slot.given if not place else ()), *part) for place, part in enumerate(slot.written)]

    def completion_ids(self, episode: FinishedEpisode) -> list[int]:
        """Return the tokens behind the prompt, those of replies included, as the last text was written behind them.

        Where the chat template alters the prompt later, they are the policy's own.
        """
        slot, opened = episode.slot, episode.record.opened
        whole = (*slot.read.tokens, *slot.written[-1])
        if not self.in_turns or whole[: len(opened)] != opened:
            return [token for part in slot.written for token in part]
        return list(whole[len(opened) :])

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of some tokens as reward functions read it."""
        return self.words.decode(tokens, self.words.tokenizer.hides_special)

    def close(self) -> None:
        """End the processes of the functions."""
        self.scorer.close()


def trainer_state(clock: Clock | None, each: int) -> dict[str, Any]:
    """Return the fields of `trainer_state`; an evaluation counts as the end of a run. `each`: steps of a rollout."""
    done, total = (1, 1) if clock is None else (clock.steps // each, -(-clock.total // each))
    known = {"global_step": int(done), "max_steps": int(total), "epoch": None, "log_history": []}
    return known | {"is_world_process_zero": True, "is_local_process_zero": True}
