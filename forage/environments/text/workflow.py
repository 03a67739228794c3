"""Workflows of several roles: language agents that take turns on one problem."""

from __future__ import annotations

from forage.core.errors import ForageError
from forage.environments.text.guard import Guard
from forage.environments.text.sets import SHARE
from forage.environments.text.tools.toolbox import Toolbox
from forage.environments.text.worlds import Question, Said, Start, WithTools

ROLES = ("caller", "solver")
NOTHING = "Nothing was called."
DIFFER = "The result and the answer differ."


class Workflow(WithTools):
    """A problem, a caller who puts it to a tool, and a solver who answers it; they take turns, the caller first.

    It is over when the solver's answer is the result that the caller found, or when no turn is left. Each turn is paid

        team x (is what the team has now, the result or the answer, right?) + local

    where local is 1 for a call that was computed, and for an answer that can be read. So each role is paid at once.

    The roles are those of the mathematical workflow of Zhao, Hu, Wang, Hou, Zhang, Ding, Zhao (2025), "Stronger
    Together: On-Policy Reinforcement Learning for Collaborative LLMs", arXiv 2510.11062, a user of Python and a
    reasoner (pettingllms-ai/PettingLLMs: multi_agent_env/math), and so is how an episode ends. There both act at once
    on what was said before, and are paid 1 for being right, -1 for a program without a result, and 1 more where the
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

    def reply(self, written: str) -> Said:
        self.taken += 1
        return self.called(written) if self.taken % len(ROLES) else self.answered(written)

    def called(self, written: str) -> Said:
        """Return what follows from a caller's text."""
        reply = self.toolbox.reply(written)
        computed = bool(reply.answers) and not reply.answers[-1].error
        self.found = reply.answers[-1].text if computed else ""
        assert self.problem is not None
        right = self.guard.verify(self.problem, f"<answer>{self.found}</answer>").truth if computed else 0.0
        text = reply.text or NOTHING
        told = f"{text} You answer; another called a tool." if self.instruct else text
        return Said(told, self.team * right + computed, False)

    def answered(self, written: str) -> Said:
        """Return what follows from a solver's text."""
        assert self.problem is not None
        verdict = self.guard.verify(self.problem, written)
        agreed = verdict.format and (self.family.extract(written) or "").strip() == self.found.strip()
        over = agreed or self.taken == self.turns
        reward = self.team * verdict.truth + float(verdict.format)
        text = "" if over else DIFFER
        return Said(text, reward, over, float(verdict.format), verdict.truth, failure=verdict.failure)

    def reference(self) -> str:
        """Return a call, and then what it found as the answer; a worked solution where it found nothing."""
        if self.taken % len(ROLES) == 0:
            return self.call()
        return f"<answer>{self.found}</answer>" if self.found else Question.reference(self)
