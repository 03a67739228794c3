"""The base model: a small transformer that has read generated problems with worked solutions, and calls of tools.

Reinforcement learning of language begins from a model that says something right now and then. No such model can be
downloaded everywhere, so here is one of a million parameters: `made` trains it in minutes, and its weights, rounded to
16 bits, come with Forage. It has read all families of `forage.environments.text` at their lowest levels, mostly
arithmetic, and a few conversations with a calculator and about hidden numbers, whose players guess at random.

Texts are laid one after another into rows of equal length, each with the end token behind it, as for GPT-2 (Radford et
al., 2019); the loss is the cross-entropy of each next token. AdamW (Loshchilov, Hutter, 2019, arXiv 1711.05101) takes
steps whose size rises over the first hundredth and falls along a cosine.
"""

from __future__ import annotations

import functools
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from forage.core.errors import ForageError
from forage.core.storage import archives
from forage.core.text.named import FORAGE, tokenizer
from forage.core.text.tokenizer import Tokenizer
from forage.environments.text import FAMILIES, games
from forage.environments.text.opening import family
from forage.environments.text.sets import problem_at
from forage.nn.language.architecture import Architecture
from forage.nn.transformer import Transformer
from forage.ops.optimiser import Optimiser

WEIGHTS = Path(__file__).parent / "base.npz"
ARCHITECTURE = Architecture(
    vocabulary=512, width=128, layers=5, heads=4, key_heads=4, inner=384, length=1024, tied=True
)
SEED = 1  # of its problems; those of training and evaluation have seed 0
OFTEN = {"addition": 6, "arithmetic": 5, "countdown": 4, "reversal": 2, "sorting": 2}
"""Families that are read more often than others."""
LEVELS = {"addition": 6, "arithmetic": 3, "countdown": 2, "reversal": 3, "sorting": 2}
"""The number of levels that are read of a family; of all others the first."""
STEPS, ROWS, LENGTH = 2500, 16, 128
LEARNING_RATE, DECAY, LONGEST = 3e-3, 0.1, 1.0


def problem_texts(generator: np.random.Generator) -> Iterator[str]:
    """Draw one problem with its worked solution after the other, without end; and conversations."""
    made = {name: family(name) for name in FAMILIES}
    order = [name for name in made for _ in range(OFTEN.get(name, 1))]
    talks = calculator_call, guessing_conversation, guessing_conversation
    end = "<|end|>"
    while True:
        for place in generator.permutation(len(order) + len(talks)):
            if place >= len(order):
                yield talks[place - len(order)](generator)
                continue
            one = made[order[place]]
            level = min(int(generator.integers(LEVELS.get(one.name, 1))), len(one.levels) - 1)
            problem = problem_at(one, level, SEED, int(generator.integers(2**31)))
            yield f"{problem.prompt}\n{one.solution(problem)}{end}"


def calculator_call(generator: np.random.Generator) -> str:
    """Return a sum of up to six digits with a call of a calculator."""
    problem = problem_at(family("addition"), int(generator.integers(6)), SEED, int(generator.integers(2**31)))
    left, right, end = problem.data["left"], problem.data["right"], "<|end|>"
    call = f"<call>calculator: {left} + {right}</call>{end}"
    return f"{problem.prompt}\n{call}\n<result>{left + right}</result>\n<answer>{left + right}</answer>{end}"


def guessing_conversation(generator: np.random.Generator) -> str:
    """Return a conversation about a hidden number, in which guesses are any that are left."""
    game, end = games.make_game("guess", numbers=2 ** int(generator.integers(3, 6)) - 1), "<|end|>"
    said = game.begin(int(generator.integers(2**31)))
    lines = [said]
    over = False
    while not over:
        guess = int(generator.integers(game.low, game.high + 1))  # type: ignore[attr-defined]
        said, _, over = game.reply(str(guess))
        lines += [f"{guess}{end}", *([] if over else [said])]
    return "\n".join(lines)


def text_rows(words: Tokenizer, seed: int, rows: int, length: int) -> Iterator[Int[np.ndarray, "row time"]]:
    """Lay texts one after another into rows, batch by batch."""
    drawn = problem_texts(np.random.default_rng(seed))
    kept: list[int] = []
    while True:
        while len(kept) < rows * length:
            kept += words.encode(next(drawn))
        yield np.array(kept[: rows * length], np.int32).reshape(rows, length)
        kept = kept[rows * length :]


def token_loss(network: Transformer, tokens: Int[Array, "row time"]) -> Float[Array, ""]:
    """Compute the mean cross-entropy of each next token, in nats."""
    logits = network(tokens[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()


def train_base_model(
    steps: int = STEPS,
    seed: int = 0,
    architecture: Architecture = ARCHITECTURE,
    heard: Callable[[int, float], None] = lambda step, loss: None,
) -> Transformer:
    """Train a base model. `heard` is called with the loss every 100 steps."""
    words = tokenizer(FORAGE)
    network = jax.tree.map(jnp.array, Transformer(jax.random.key(seed), architecture))  # norms share arrays at first
    rate = optax.warmup_cosine_decay_schedule(0.0, LEARNING_RATE, max(steps // 100, 1), steps, LEARNING_RATE / 20)
    chain = optax.chain(optax.clip_by_global_norm(LONGEST), optax.adamw(rate, b2=0.95, weight_decay=DECAY))
    optimiser = Optimiser(chain)
    state = optimiser.init(network)

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(network: Transformer, state: Any, tokens: Array) -> tuple[Transformer, Any, Array]:
        value, slope = jax.value_and_grad(token_loss)(network, tokens)
        return *optimiser.step(slope, state, network), value

    for number, tokens in zip(range(1, steps + 1), text_rows(words, seed, ROWS, LENGTH), strict=False):
        network, state, value = step(network, state, tokens)
        if number % 100 == 0:
            heard(number, float(value))
    return network


def save_base(network: Transformer, path: Path = WEIGHTS) -> None:
    """Write the weights, rounded to 16 bits."""
    leaves = {str(number): np.asarray(leaf, np.float16) for number, leaf in enumerate(jax.tree.leaves(network))}
    np.savez_compressed(path, **leaves)  # type: ignore[arg-type]


def load_base(path: Path = WEIGHTS) -> Transformer:
    """Return the base model in 32 bits."""
    like = jax.eval_shape(lambda: Transformer(jax.random.key(0), ARCHITECTURE))
    leaves, structure = jax.tree.flatten(like)
    try:
        with archives.open_archive(path) as file:
            found = [jnp.asarray(file[str(number)], jnp.float32) for number in range(len(leaves))]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ForageError(f"The base model's weights in {path} cannot be read: {error}.") from error
    if [leaf.shape for leaf in leaves] != [leaf.shape for leaf in found]:
        raise ForageError(f"The weights in {path} are of another base model; make them again.")
    return jax.tree.unflatten(structure, found)
