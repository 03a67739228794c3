"""The options of parts: their names, types, defaults and meanings, read from fields and the comments on them."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import io
import textwrap
import tokenize
import typing
from typing import Any

from forage.core.ports.needs import Needs
from forage.core.settings import Setting


@dataclasses.dataclass(frozen=True)
class Field:
    """One hyper-parameter of a part."""

    name: str
    type: Any
    default: Any
    part: type  # the class that has it

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def help(self) -> str:
        """The meaning, from the comment behind the field; without one, from `MEANINGS`, as in every other part.

        The source is read when this is asked for: that takes a tenth of a second, and training needs no meaning.
        """
        written = (field_comments(base).get(self.name) for base in self.part.__mro__ if dataclasses.is_dataclass(base))
        return next((words for words in written if words), "") or meaning_of(self.name, self.part.__module__)


def fields(cls: type) -> list[Field]:
    """Return the hyper-parameters of a part: its dataclass fields."""
    hints = typing.get_type_hints(cls)
    result = []
    for field in dataclasses.fields(cls):
        default = field.default
        if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        result.append(Field(field.name, hints.get(field.name, Any), default, cls))
    return result


MEANINGS = {
    # collecting
    "num_envs": "environments stepped side by side; more give each update more varied data",
    "rollout_length": "steps of each environment between two updates; more make larger and fewer updates",
    "updates_per_rollout": "updates after each rollout; more learn more from each step, at more computing",
    "learning_starts": "environment steps before the first update; more begin with more varied data",
    # learning
    "optimiser": "one of Optax by its name, such as adamw, sgd or lion, or module:function of the learning rate",
    "learning_rate": "step size of the optimiser; larger learns faster, and diverges sooner",
    "discount": "worth of a reward one step later; nearer 1 looks further ahead",
    "batch_size": "transitions, or sequences of them, in each update; more make steadier gradients, at more computing",
    "minibatch_size": "transitions in each gradient step; more make steadier and fewer steps",
    "minibatches": "equal parts that a rollout is cut into, each for a gradient step; more make more, noisier steps",
    "epochs": "passes over each rollout; more learn more from it, and fit it more closely",
    "max_gradient_norm": "longer gradients are cut to this length; smaller makes more cautious steps",
    "n_step": "rewards summed before a value is taken; more carry rewards back faster, with more noise",
    "double": "the network chooses the action that the target network values (double Q-learning), which overrates less",
    "dueling": "the network adds a state's value and each action's advantage, in streams of their own",
    # on-policy learning
    "gae_lambda": "decay of the weights of longer returns in advantages; nearer 1 has less bias and more variance",
    "clip": "how far a new policy's probability ratio is followed away from 1; larger allows larger policy steps",
    "clip_value": "values move by at most `clip` in an update, too",
    "entropy_coefficient": "weight of the policy's entropy in the loss; larger explores more",
    "value_coefficient": "weight of the value's loss beside the policy's; larger gives values more of the gradient",
    "normalise_advantage": "advantages of each minibatch are brought to mean 0 and deviation 1",
    "normalise_observation": "observations are brought to mean 0 and deviation 1, by those seen so far",
    # networks
    "hidden_sizes": "units of each hidden layer, for observations that are no images",
    "value_sizes": "units of each hidden layer of the value's own network; none: hidden_sizes",
    "activation": "function between layers: one of jax.nn by its name, or module:function",
    "layer_norm": "hidden layers are normalised before their activation; steadier where values grow",
    "encoder": "class of one's own that turns an observation into features, before the hidden layers: file.py:Class",
    "embedding_size": "numbers that an observation is turned into; more keep more of it, at more computing",
    # temperatures
    "initial_temperature": "weight of the policy's entropy at first; larger explores more",
    # rewards
    "inner": "the rewards within, which this part begins from",
    "weight": "weight of the bonus beside the reward; larger explores more",
}
"""Meanings of the hyper-parameters that many parts share, by name. A comment behind a part's own field goes before."""


def meaning_of(option: str, module: str) -> str:
    """Return the sentence that explains an option in all parts of a package; empty if there is none."""
    if option in MEANINGS:
        return MEANINGS[option]
    from forage.config import packages

    package = packages.package_of(module)
    return package.meanings.get(option, "") if package else ""


def setting_of(cls: type) -> Setting | None:
    """Return the row of a named setting; None for other classes."""
    return vars(cls).get("setting")


@functools.cache
def field_comments(cls: type) -> dict[str, str]:
    """Return the comment on each field of a class, with its continuation lines; empty without a source.

    Reading a source takes milliseconds, and the fields that agents share are looked up for each of them.
    A named setting has its meanings in its row.
    """
    if row := setting_of(cls):
        return dict(row.meanings)
    try:
        return parse_comments(vars(cls).get("source_text") or inspect.getsource(cls))
    except (OSError, TypeError):
        return {}


def parse_comments(source: str) -> dict[str, str]:
    """Return the comment behind each field of the class that begins a text."""
    try:
        source = textwrap.dedent(source)
        body = ast.parse(source).body[0]
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (SyntaxError, tokenize.TokenError):
        return {}
    notes = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    alone = {
        token.start[0]
        for token in tokens
        if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip()
    }
    found = {}
    for node in body.body if isinstance(body, ast.ClassDef) else []:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        end = node.end_lineno or node.lineno
        words = [notes[line] for line in range(node.lineno, end + 1) if line in notes]
        while words and (end := end + 1) in alone:
            words.append(notes[end])
        found |= {node.target.id: " ".join(words)} if words else {}
    return found


def is_a(cls: type, name: str) -> bool:
    """Return whether a class is a `forage.core.ports.NAME`, found out without importing it."""
    return any(base.__name__ == name and base.__module__.startswith("forage.core.ports.") for base in cls.__mro__)


def needs_words(cls: type) -> list[str]:
    """Describe the needs that a part declares, those of its base classes first; of actions the last ones count."""
    found = [vars(base).get("needs") for base in reversed(cls.__mro__)]
    if any(isinstance(own, property) for own in found):
        blank = object.__new__(cls)  # for needs that follow from the class
        found = [own.fget(blank) if isinstance(own, property) and own.fget else own for own in found]
    known = [own for own in found if isinstance(own, Needs)]
    last = next((own for own in reversed(known) if own.actions), None)
    only = [dataclasses.replace(own, actions=last.actions) if last and own.actions else own for own in known]
    return list(dict.fromkeys(words for needs in only for words in needs.words()))
