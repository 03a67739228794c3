"""Answers from an OpenAI-compatible server as the sampler."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any, ClassVar, cast

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from forage.core.errors import warn
from forage.core.ports import ActContext, Agent, Behaviour, Decision, HiddenState, Intervention, InterventionContext
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.spaces import Tokens
from forage.core.text import named
from forage.core.text.completions import Answer, AnswerRequest, TokenReader, complete
from forage.core.text.server import SAID, LostAnswer, Server, check_url, map_threads
from forage.core.types import AGENT, GONE, ForageError, Spec
from forage.nn.language.export import write_model

TRUNCATIONS = "top_k", "top_p", "min_p"
CORRECTION = "token-truncate"


@functools.lru_cache
def server_of(url: str, model: str, variable: str, timeout: float, retries: int) -> Server:
    """Return the server of these options, the same one for all seeds."""
    return Server(url, model, variable, timeout, retries)


def absolute(path: str) -> str:
    """Return a path as it is found from anywhere; empty for none."""
    return str(Path(path).expanduser().absolute()) if path else ""


class Endpoint(Behaviour):
    """An OpenAI-compatible server (vLLM, SGLang, llama.cpp) that writes the answers and returns their
    log-probabilities.

    Prompts go to `POST /v1/completions` as token ids. The agent scores the same tokens with its own weights, and weighs
    its loss by the ratio of both: `--correction`, truncated importance sampling of tokens (token-truncate) unless
    another one is named. Evaluation is the agent's own.

    An answer that does not come, or cannot be learned from, is lost: its conversation is left out of its group and of
    the loss, and the run goes on. Reasons that may pass are waited for, `retries` times. Where as many answers in a row
    are lost as there are environments, the run stops in one sentence.

    The server's weights are its own. Unless somebody updates them it is a fixed sampler, which the policy moves away
    from; far from it no truncated correction helps. `publish` writes the policy to a directory of Hugging Face's before
    every `every`-th rollout, and with `reload` the server is told to read it, by `{"model_path": directory}` to
    that path: `/update_weights_from_disk` is SGLang's (docs.sglang.io, "SGLang for RL Systems"). One server has one
    policy, so that `publish` takes one seed.

    What a server says can neither be repeated nor is it kept: a resumed run goes on from its newest checkpoint, and
    asks again for all after it. The seed of each request is the same then.
    """

    on_host: ClassVar[bool] = True
    example: ClassVar[str] = (
        "forage train grpo text:countdown --behaviour endpoint --behaviour.url http://localhost:8000/v1"
    )
    ranges: ClassVar[Ranges] = {
        "parallel": Range(1),
        "timeout": Range(0, above=True),
        "retries": Range(0),
        "every": Range(1),
    }
    needs: ClassVar[Needs] = Needs(
        writes=True,
        ability="correction",
        reason="does not correct for an endpoint, which draws with other numbers than the policy's",
        instead="use an agent that does, such as grpo, dr-grpo, dapo or gspo, or the agent's own behaviour",
    )

    url: str = equinox.field(static=True)  # address of the server up to /v1, without a key, as it is kept with the run
    model: str = equinox.field(static=True, default="")  # the server's name of its model; none: the first that it lists
    key_variable: str = equinox.field(static=True, default="FORAGE_ENDPOINT_KEY")  # environment variable that holds the
    # key, where the server wants one; the key is in no file
    tokenizer: str = equinox.field(static=True, default=named.FORAGE)  # that of the environment: forage or a directory
    text: bool = equinox.field(static=True, default=False)  # prompts go as text, to a server that takes no token ids
    tempered: bool = equinox.field(static=True, default=False)  # the server's log-probabilities are those after the
    # temperature: SGLang's are, and vLLM's with --logprobs-mode processed_logprobs
    parallel: int = equinox.field(static=True, default=32)  # requests that are under way at once
    timeout: float = equinox.field(static=True, default=120.0)  # seconds that an answer may take
    retries: int = equinox.field(static=True, default=3)  # more attempts where a reason may pass, after 0.5, 1, 2
    # seconds and so on
    publish: str = equinox.field(static=True, default="", converter=absolute)  # directory that the policy is written
    # to; none: the server's weights are left to others
    every: int = equinox.field(static=True, default=1)  # rollouts from one publication to the next
    reload: str = equinox.field(static=True, default="")  # path at the server that makes it read what was published,
    # such as /update_weights_from_disk; none: nobody tells it

    def __check_init__(self):
        check_url(self.url)
        if self.reload and not (self.publish and self.reload.startswith("/") and "?" not in self.reload):
            raise ForageError(
                "What a server reloads is what was published: give --behaviour.publish DIRECTORY, and a path at the "
                "server such as --behaviour.reload /update_weights_from_disk."
            )

    @property
    def server(self) -> Server:
        return server_of(self.url, self.model, self.key_variable, self.timeout, self.retries)

    def completes(self, agent: Agent) -> dict[str, Any]:
        return {"correction": CORRECTION} if getattr(agent, "corrects_sampler", False) else {}

    def check(self, agent: Agent, spec: Spec) -> None:
        if any(getattr(agent, name) is not None for name in TRUNCATIONS):
            raise ForageError(
                "An endpoint says how probable tokens are among all, and not among those that a truncation leaves; "
                "leave out top_k, top_p and min_p."
            )
        self.check_temperature(getattr(agent, "temperature", 1.0))
        self.reader(spec)

    def check_temperature(self, temperature: float) -> None:
        """Raise `ForageError` for a temperature at which the server returns no probabilities of tokens."""
        if temperature != 1 and not (self.tempered and temperature > 0):
            raise ForageError(
                f"A server says how probable tokens are at temperature 1, and the agent's is {temperature:g}; give "
                f"--temperature 1, or, for one that says it at its own temperature, --behaviour.tempered true and a "
                f"temperature above 0."
            )

    def reader(self, spec: Spec) -> TokenReader:
        """Return the reader of the server's tokens. Raise `ForageError` if the tokenizer is not the environment's."""
        tokenizer, space = named.tokenizer(self.tokenizer), spec.action_space
        assert isinstance(space, Tokens) and space.end is not None
        ends = tuple(one - 1 for one in space.ends)
        if (tokenizer.vocabulary, tokenizer.end) != (space.vocabulary - 1, ends[0]):
            raise ForageError(
                f"The tokenizer of {spec.name} has {space.vocabulary - 1} tokens, and {self.tokenizer} "
                f"{tokenizer.vocabulary}; give --behaviour.tokenizer what --env.tokenizer is."
            )
        return TokenReader(tokenizer, space.vocabulary - 1, ends[0], self.text, ends[1:])

    def act(self, state: Any, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        """Return an empty answer: the server is asked once all environments are known."""
        own = jax.eval_shape(lambda o, k: moment.own(hidden.agent, o, k)[2], observation, moment.key)
        agent: Any = moment.agent
        policy_info: Any = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), own)
        policy_info = policy_info._replace(temperature=jnp.zeros_like(policy_info.temperature) + agent.temperature)
        return Decision(jnp.zeros_like(observation["reference"]), hidden, policy_info, jnp.int32(AGENT))

    def attend(self, spec: Spec, num_envs: int) -> PyTree[np.ndarray]:
        """Greet the server, and begin without lost answers."""
        self.server.hello()
        self.server.owner, self.server.told = None, {""}
        counts = {name: np.int64(0) for name in ("asked", "failed", "row", "rollouts")}
        return counts | {"lost": np.zeros(num_envs, bool), "published": np.int64(-1)}

    def intervention_metrics(self, state: Any) -> dict[str, float]:
        found = {"answers_asked": float(state["asked"]), "answers_lost": float(state["failed"])}
        lag = state["rollouts"] - 1 - state["published"]
        return found | ({"sampler_lag": float(max(lag, 0))} if self.publish else {})

    def intervene(self, state: Any, scene: InterventionContext) -> Intervention:
        state = dict(state) | {"lost": state["lost"] & ~scene.begins}
        if scene.begins.all():
            if self.publish and (state["rollouts"] % self.every == 0 or self.server.owner is None):
                self.hand_over(scene)
                state["published"] = state["rollouts"].copy()
            state["rollouts"] = state["rollouts"] + 1
        seen: Any = scene.observation
        context, policy_info = seen["context"], cast(Any, scene.policy_info)
        asking = np.flatnonzero((context != Tokens.PAD).any(1) & ~state["lost"])
        answers = map_threads(functools.partial(self.one, scene), asking.tolist(), self.parallel)
        action, log_probability = np.zeros_like(scene.action), np.zeros_like(policy_info.log_probability)
        row, reason = int(state["row"]), ""
        for index, answer in zip(asking.tolist(), answers, strict=True):
            if isinstance(answer, Answer):
                row, length = 0, len(answer.tokens)
                action[index, :length] = np.array(answer.tokens) + 1
                log_probability[index, :length] = answer.log_probability
            else:
                row, reason, state["lost"][index] = row + 1, str(answer), True
        failed = sum(isinstance(answer, LostAnswer) for answer in answers)
        self.complain(row, reason, len(context))
        state |= {"asked": state["asked"] + len(asking), "failed": state["failed"] + failed, "row": np.int64(row)}
        source = np.where(state["lost"], GONE, AGENT)
        told = policy_info._replace(log_probability=log_probability)
        return Intervention(action, np.ones(len(context), bool), state, told, source)

    def one(self, scene: InterventionContext, index: int) -> Answer:
        """Return the answer in one environment. Raise `Lost` if none came that can be learned from."""
        seen, policy_info = cast(Any, scene.observation), cast(Any, scene.policy_info)
        context, temperature = seen["context"][index], float(policy_info.temperature[index, 0])
        self.check_temperature(temperature)
        seed = np.random.SeedSequence([scene.seed, int(scene.clock.steps), index]).generate_state(1)[0] >> 1
        prompt = tuple((context[context != Tokens.PAD] - 1).tolist())
        most = int(seen["room"][index]) if "room" in seen else seen["reference"].shape[1]
        asked = AnswerRequest(prompt, most, temperature, int(seed))
        return complete(self.server, asked, self.reader(scene.spec))

    def complain(self, row: int, reason: str, num_envs: int) -> None:
        """Warn of the reason for a lost answer, once for each reason. Raise `ForageError` if all are lost."""
        if row >= num_envs:
            raise ForageError(
                f"The endpoint {self.url} {reason}, and {row} answers in a row were lost; see to the server, and "
                f"resume the run."
            )
        kind = "".join(letter for letter in reason if not letter.isdigit())
        if kind not in self.server.told:
            self.server.told.add(kind)
            warn(f"An answer was lost: the endpoint {self.url} {reason}.")

    def hand_over(self, scene: InterventionContext) -> None:
        """Write the policy to the server's directory, file by file, and notify the server. One policy at a time."""
        server, directory = self.server, Path(self.publish)
        server.owner = scene.seed if server.owner is None else server.owner
        if server.owner != scene.seed:
            raise ForageError(
                f"One server samples for one policy, and the seeds {server.owner} and {scene.seed} publish theirs; "
                f"give one seed."
            )
        assert scene.policy is not None
        tokenizer, part = self.reader(scene.spec).tokenizer, directory.with_name(f"{directory.name}.part")
        written = write_model(scene.policy().network, tokenizer, part)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for file in written.iterdir():
                os.replace(file, directory / file.name)
            written.rmdir()
        except OSError as error:
            raise ForageError(f"Could not write {directory}: {error.strerror or error}.") from error
        if not self.reload:
            return
        try:
            said = server.ask("POST", self.reload, {"model_path": str(directory), "flush_cache": True})
        except LostAnswer as lost:
            raise ForageError(f"The endpoint {self.url} {lost}, when it was to reload {directory}.") from None
        if isinstance(said, dict) and said.get("success") is False:
            words = str(said.get("message", "it does not say why"))[:SAID].rstrip(".")
            raise ForageError(f"The endpoint {self.url} did not reload {directory}: {words}.")
