"""Coloured action noise: pink noise holds to a direction for long enough to get somewhere."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core.ports import ActContext, ActInputs, Agent, Behaviour, Decision, HiddenState
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError, Spec
from forage.ops.every import run_if


class Signal(NamedTuple):
    """The behaviour's memory within an episode."""

    noise: Float[Array, "length *noise"]
    time: Int[Array, ""]  # steps taken


class Pink(Behaviour):
    """Noise of a power spectrum f^-exponent over frequencies f for the agent's actions: 0 is white, 1 pink, 2 red.

    At the start of an episode a signal of `length` steps is drawn for each number that the agent makes actions from:
    its Fourier coefficients are independent normals of variance f_k^-exponent at f_k = k / length, and that of f_1 at
    frequency 0. Once it is used up, another is drawn. Each value by itself is standard normal, so the agent's own scale
    applies, and single actions are as probable as the agent thinks. What hangs together is their sequence: an on-policy
    agent's gradient stays that of its policy at the states that were visited, which are visited otherwise.

    It takes the place of white noise from the first step on; there is no uniform start.

    Source: Eberhard, Hollenstein, Pinneri, Martius, 2023, "Pink Noise Is All You Need: Colored Noise Exploration in
    Deep Reinforcement Learning", ICLR; there for SAC and MPO, with an exponent of 1 and the episode's length. The
    signal: Timmer, König, 1995, "On generating power law noise". The authors' code scales it to a variance of 1 about
    the signal's own mean, and so to 1.07 in all for 1000 steps of pink noise; here it is 1 in all. There a signal is
    used to its end, whatever episodes end meanwhile.
    """

    example: ClassVar[str] = "forage train sac MountainCarContinuous-v0 --behaviour pink"
    ranges: ClassVar[Ranges] = {"exponent": Range(), "length": Range(0)}
    needs: ClassVar[Needs] = Needs(normal_noise=True)

    exponent: float = 1.0  # how fast power falls with the frequency; larger makes slower noise: 0 is white, 1 pink, 2
    # red
    length: int = equinox.field(static=True, default=0)  # steps of a signal; 0: as long as an episode can last

    def __check_init__(self):
        if self.length < 0 or self.length == 1:
            raise ForageError(f"A signal has 2 steps or more, or 0 for those of an episode, not {self.length}.")

    def check(self, agent: Agent, spec: Spec) -> None:
        if not self.length and not spec.horizon:
            raise ForageError(
                f"{spec.name} has no limit of steps, so there is none for coloured noise; behaviour.length=1000 works."
            )

    def steps(self, spec: Spec) -> int:
        return max(2, self.length or spec.horizon or 0)

    def init_hidden(self, agent: Agent, spec: Spec) -> Signal:
        shape = agent.noise(spec)
        assert shape is not None
        return Signal(jnp.zeros((self.steps(spec), *shape)), jnp.int32(0))

    def act(self, state: Any, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        act_key, signal_key = jax.random.split(moment.key)
        signal: Signal = hidden.behaviour
        length, *shape = signal.noise.shape
        place = signal.time % length
        noise = run_if(place == 0, lambda _: self.signal(signal_key, length, *shape), signal.noise)
        action, memory, policy_info = moment.agent.act(
            moment.agent_state, ActInputs(hidden.agent, observation, act_key, explore=True, noise=noise[place])
        )
        return Decision(action, HiddenState(memory, Signal(noise, signal.time + 1)), policy_info)

    def signal(self, key: Key[Array, ""], length: int, *shape: int) -> Float[Array, "length *noise"]:
        """Gaussian noise of unit variance with the spectrum, independent for each entry of `shape`.

        y_t = sum_k s_k (a_k cos(2 pi k t / length) - b_k sin(2 pi k t / length)),  a_k and b_k standard normal,
        which the inverse FFT sums; at frequency 0, and at 1/2 where there is one, there is only a_k.
        """
        count = length // 2 + 1
        alone = np.arange(count) % (length / 2) == 0  # a cosine without a sine
        power = jnp.where(alone, 1.0, 2.0) * (jnp.maximum(jnp.arange(count), 1) / length) ** -self.exponent
        scale = jnp.sqrt(power / power.sum()) * np.where(alone, 1.0, 0.5) * length  # the inverse FFT mirrors the others
        cosine, sine = jax.random.normal(key, (2, *shape, count)) * scale
        spectrum = jax.lax.complex(cosine, jnp.where(alone, 0.0, sine))
        return jnp.moveaxis(jnp.fft.irfft(spectrum, length), -1, 0)
