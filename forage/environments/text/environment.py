"""Text as an environment: a turn is a step, and observations and actions are token ids."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from forage.core.errors import ForageError
from forage.core.text import named
from forage.environments.text import setup, worlds
from forage.environments.text.episodes.batch import ConversationBatch
from forage.environments.text.episodes.chunks import Chunks
from forage.environments.text.episodes.course import Words
from forage.environments.text.episodes.judge import Judge
from forage.environments.text.episodes.running import RunningEpisodes
from forage.environments.text.episodes.starts import StartOrder
from forage.environments.text.form import HISTORIES, PROMPT_END, read_variables
from forage.environments.text.names import find_native, levels_of, tool_target
from forage.environments.text.own import prompts
from forage.environments.text.own.prompts import Prompts
from forage.environments.text.own.scoring import SECONDS
from forage.environments.text.sets import SHARE, SPLITS


class TextEnvironment(ConversationBatch):
    """Problems with a verifier, with or without tools, and games, as conversations.

    - Observation: `context`, all that was said so far, padded in front, and `reference`, what an expert would write
      next, padded behind, which is not for the policy to read. No token of either where there is nothing left to do.
    - Action: the tokens that the policy writes, padded behind; an end token ends them, any one of those that the
      tokenizer and the files of the model beside it name.
    - Of both a token's number is the tokenizer's plus 1, as 0 is no token.
    - With `roles` an observation has the `role` as well, whose turn it is: 0 for the caller and 1 for the solver.
    - With `room` an observation has the `room`, the number of tokens that the next text may have.
    - Reward: 1 for a right answer; of a game, what its rules say.
    - Terminated: after `turns` steps. What is over before that waits, so that episodes that began together end
      together, and groups of them stay together.
    - Info, at the last step: `format` and `truth` of the answer apart, `turns` taken, `tokens` written, `overflow`,
      1 where what was said no longer fitted into the context and the episode was over for that, and `unfinished`, 1
      where an answer had no end when its tokens were used up. With tools and in most games also `executed`, at each
      text's step: 1 where its call, command or answer could be carried out, else 0. The last step has the last text's.

    Evaluation plays problems that are held out from training.

    In place of problems there may be prompts of a file, and in place of the verifier reward functions
    (`episodes/judge.py`), which judge an episode with its last text, and in games add to what the rules pay. Info has
    each one's reward as `reward_NAME`, and there is neither `format` nor `truth`. An answer without a reward is `lost`:
    its episode is truncated, and whoever compares answers leaves it out; `unscored` is 1 where that is because all
    returned None.

    A hint is the beginning of the reference, behind the prompt: the policy goes on from there, the verifier reads hint
    and answer as one text, and `tokens` counts the policy's own. Evaluation gives none.
    """

    def __init__(
        self,
        target: str,
        num_envs: int,
        name: str | None = None,
        level: int | str = 0,
        problems: int = 0,
        tools: Sequence[str] | str = (),
        turns: int = 0,
        context: int = 0,
        response: int = 0,
        tokenizer: str = named.FORAGE,
        chat: bool = False,
        system: str = "",
        enable_thinking: bool | None = None,
        chat_template_kwargs: Mapping[str, Any] | str | None = None,
        date: str | None = None,
        history: str = HISTORIES[0],
        instruct: bool = False,
        held_out: float = SHARE,
        hints: float = 0.0,
        chunk: int = 0,
        carry: int = 0,
        head: int = 0,
        branches: bool = False,
        room: bool = False,
        roles: bool = False,
        team: float = 1.0,
        parallel: int = 0,
        calls: str = "",
        rows: Sequence[Mapping[str, Any]] | str | None = None,
        evaluate: str = "",
        rewards: Sequence[str] | str = (),
        reward_weights: Sequence[float] | float = (),
        reward_seconds: float = SECONDS,
        **options: Any,
    ):
        """Make `num_envs` conversations of one kind.

        Args:
            target: A family of problems such as `addition`, several as in `addition+sorting`, `reasoning-gym:NAME`, a
                game such as `wordle`, or a file of rows with prompts, such as `prompts.jsonl`.
            num_envs: How many conversations go on side by side.
            name: The id, for messages.
            level: Which level problems are of, or the first and the last as in `0-3`.
            problems: How many different problems there are to train on; 0 for all that there are.
            tools: Names of tools that may be called before an answer to a problem, or to a prompt of a file.
            turns: Texts that are written in an episode, at most; 0 for 1, 3 with tools, 10 in games.
            context: Tokens that are read at most; 0 for what the texts take.
            response: Tokens that an answer has at most; 0 for what the references take, and for prompts of a file 512,
                64 with Forage's own tokenizer, or less where a run would not fit into the free memory, as it then says.
            tokenizer: `forage`, or a directory that has one.
            chat: Texts are put into the tokenizer's chat template; a context is what it gives for the whole dialogue.
            system: With chat, the system prompt of conversations that have none.
            enable_thinking: With chat, whether the template lets the policy think before it answers.
            chat_template_kwargs: With chat, further names that the template asks for, as a mapping or its JSON.
            date: With chat, the date that the template writes, as 2026-12-31; by default the day of the run's start.
            history: With chat, earlier turns as the `template` shows them, some of which drop thoughts, or the tokens
                as they were `written`.
            instruct: Prompts say how an answer is given, for models that were not made here.
            held_out: Share of the problems that evaluation plays and training does not.
            hints: The largest share of a reference that tasks may give away behind the prompt, from 0 to 1; the context
                has room for it.
            chunk: Tokens of an answer that are written at a time, each time from a shortened context; 0 for all.
            carry: Last tokens of an answer so far that its next chunk sees.
            head: First tokens of an answer that its later chunks see.
            branches: Answers may go on from given tokens, for which the context then has room.
            room: Observations say how many tokens the next text may have, so that tasks can shorten answers.
            roles: A caller of the tools and a solver take turns, the caller first; observations say whose turn it is.
            team: With roles, what each is paid where the team is right, beside 1 for what it has to do itself.
            parallel: Texts whose tools and verifier run at a time where they have processes of their own; 0 for one a
                processor.
            calls: With chat, the form of calls of tools: the `template`'s, or `forage`'s, <call>name: text</call>; by
                default the template's, where it has one that Forage reads.
            rows: Of a class whose methods are tools, the arguments of each `reset`: a file of rows, or mappings.
            evaluate: With prompts of a file, a second file whose prompts evaluation plays; without one a share of the
                first, `held_out`.
            rewards: Reward functions that judge the answers, each as `file.py:name` or `module:name`.
            reward_weights: The weight of each in the reward; 1 each unless it is given.
            reward_seconds: Seconds that reward functions have for the answers of a step.
            options: A game's own, or those of a person's class.
        """
        name = name or f"text:{target}"
        used = tuple(map(tool_target, tools.split(",") if isinstance(tools, str) else tools)) if tools else ()
        first, last = levels_of(name, level)
        levels, lengths = range(first, last + 1), {"context": context, "response": response}
        setup.check_numbers(name, problems, parallel, lengths, held_out, hints)

        # Worlds, and the form of their texts
        self.tokenizer = named.tokenizer(tokenizer)
        variables = read_variables(chat_template_kwargs, enable_thinking)
        setup.check_template(name, bool(chat), history, bool(system or variables or date))
        native = find_native(name, self.tokenizer, bool(chat), calls)
        if team != 1 and not roles:
            raise ForageError(f"{name} has one role, so nothing is paid to a team; give --env.roles true, or no team.")
        from_file = prompts.is_file(target)
        if from_file:
            others = {"turns": turns > 1 and not used, "instruct": instruct and not used, "roles": roles}
            others |= {"hints": hints, "rows": rows, **options}
            made = setup.prompt_worlds(name, num_envs, used, turns, native, others)
        else:
            make = functools.partial(worlds.make_world, target, used, turns, instruct, held_out, options)
            more = {"team": float(team) if roles else None, "native": native, "rows": rows}
            made = setup.problem_worlds(name, num_envs, evaluate, lambda beside: make(beside, **more))
        world: worlds.World = made[0]
        self.form = setup.make_form(self.tokenizer, bool(chat), system, variables, date, history, world, tokenizer)
        self.stop = self.form.stop  # all tokens that end an answer, `ends` first
        self.ends, words = self.stop[0], Words(self.form, self.stop)

        # Prompts of a file, and lengths
        self.prompts: Prompts | None = None
        problems = int(problems)
        if from_file:
            self.prompts = setup.share_prompts(name, made, target, evaluate, held_out, self.form, context, instruct)
            number = len(self.prompts.rows[SPLITS[0]])
            problems = min(problems, number) or number
            context, response = setup.prompt_lengths(self.prompts, tokenizer, world.turns, context, response)
        if last >= world.levels:
            raise ForageError(f"{name} has levels 0 to {world.levels - 1}, not {last}; give one of these as level.")
        if hints:
            setup.check_hints(name, world, first, chunk)
        setup.check_parts(name, chunk, carry, head, branches, room)
        self.roles = setup.ROLES if roles else 0
        self.chunks = Chunks(int(chunk), int(carry), int(head)) if chunk else None
        given = context, response
        course = setup.make_course(name, words, world, levels, hints, self.roles, given, self.chunks, bool(branches))

        # The judgement on episodes
        judge: Judge | None = None
        if rewards:
            if roles:
                raise ForageError(f"The roles of {name} are paid by its own rules; leave out roles, or the rewards.")
            in_turns = course.turns > 1 and not self.chunks
            judge = Judge(world, words, rewards, reward_weights, reward_seconds, first, in_turns)
        elif reward_weights != () or reward_seconds != SECONDS:
            raise ForageError(f"{name} has no reward functions, which weights are for; name them with --rewards.")
        episodes = RunningEpisodes(course, made, self.roles, bool(room), int(parallel))
        order = StartOrder(levels, problems, self.prompts)
        super().__init__(num_envs, episodes, order, judge, bool(branches), float(hints))

    @property
    def prompt_end(self) -> str:
        """Return the text behind each problem's prompt; none with a chat template, or behind prompts of a file."""
        return "" if self.form.chat or self.prompts is not None else PROMPT_END
