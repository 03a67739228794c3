"""Workflows of several roles: language agents that take turns on one problem."""

from __future__ import annotations

from forage.core.errors import ForageError
from forage.environments.text.guard import Guard
from forage.environments.text.problems import Verdict
from forage.environments.text.sets import SHARE
from forage.environments.text.tools.toolbox import Toolbox
from forage.environments.text.worlds import Question, Start, WithTools, WorldReply

ROLES = ("caller", "solver")
NOTHING = "Nothing was called."
DIFFER = "The result and the answer differ."


class Workflow(WithTools):
    """A problem, a caller with a tool, and a solver with the answer; they take turns, the caller first.

    The episode ends with a solver's answer equal to the caller's result, or after the last turn. The reward of a turn
    is

        team x (is the team's current result or answer right?) + local

    with local 1 for a call that was computed, and for an answer that can be read. So each role is rewarded at once.

    The roles are those of the mathematical workflow of Zhao, Hu, Wang, Hou, Zhang, Ding, Zhao (2025), "Stronger
    Together: On-Policy Reinforcement Learning for Collaborative LLMs", arXiv 2510.11062, a user of Python and a
    reasoner (pettingllms-ai/PettingLLMs: multi_agent_env/math), and so is the end of an episode. There both act at once
    on the previous texts, with rewards of 1 for a right answer, -1 for a program without a result, and 1 more if the
    reasoner is right.
    """

    def __init__(
        self,
        name: str,
        toolbox: Toolbox,
        turns: int = 2,
        instruct: bool = False,
        share: float = SHARE,
        guard: Guard | None = None,
        team: float = 1.0,
    ):
        if turns % len(ROLES):
            raise ForageError(f"A caller and a solver take turns, so {turns} turns are none; give an even number.")
        super().__init__(name, toolbox, turns, instruct, share, guard)
        self.team = team

    def begin(self, start: Start) -> str:
        prompt = super().begin(start)
        return f"{prompt} You call a tool, and another answers." if self.instruct else prompt

    def reply(self, written: str) -> WorldReply:
        self.taken += 1
        return self.reply_to_caller(written) if self.taken % len(ROLES) else self.reply_to_solver(written)

    def reply_to_caller(self, written: str) -> WorldReply:
        """Return the reply to a caller's text."""
        reply = self.toolbox.reply(written)
        computed = bool(reply.answers) and not reply.answers[-1].error
        self.found = reply.answers[-1].text if computed else ""
        assert self.problem is not None
        verdict = self.guard.verify(self.problem, f"<answer>{self.found}</answer>") if computed else Verdict(False, 0.0)
        text = reply.text or NOTHING
        told = f"{text} You answer; another called a tool." if self.instruct else text
        return WorldReply(told, self.team * verdict.truth + computed, False, failure=verdict.failure)

    def reply_to_solver(self, written: str) -> WorldReply:
        """Return the reply to a solver's text."""
        assert self.problem is not None
        verdict = self.guard.verify(self.problem, written)
        agreed = verdict.format and (self.family.extract(written) or "").strip() == self.found.strip()
        over = agreed or self.taken == self.turns
        reward = self.team * verdict.truth + float(verdict.format)
        text = "" if over else DIFFER
        return WorldReply(text, reward, over, float(verdict.format), verdict.truth, failure=verdict.failure)

    def reference(self) -> str:
        """Return a call, then its result as the answer, or a worked solution if it has none."""
        if self.taken % len(ROLES) == 0:
            return self.call()
        return f"<answer>{self.found}</answer>" if self.found else Question.reference(self)
