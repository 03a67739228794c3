"""The sizes and choices that make a decoder-only transformer one of a family.

All families are blocks of attention and an MLP (`forage/nn/transformer.py`); what differs between them is a few
choices, which `FAMILIES` lists as transformers 5.24 makes them (models/*/configuration_*.py and modeling_*.py). SmolLM
and SmolLM2 are of the family `llama`, Phi-4-mini is of `phi3`; SmolLM3 is one of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from forage.core.errors import ForageError, nearest
from forage.nn.language.positions import Rope


class Family(NamedTuple):
    """The choices that a family leaves open, or makes."""

    attention_bias: tuple[bool, ...] = (False, True)  # of queries, keys and values
    out_bias: bool | None = None  # of what attention returns; `None`: as those
    mlp_bias: bool = False  # whether an MLP may have biases
    head_norm: str = ""  # what of queries and keys is normalised: each head, or all heads as a whole
    windows: str = "none"  # which layers may have a window: none, each, or all alike
    unrotated: bool = False  # whether layers may be without positions
    norm: str = "root"  # root mean square, rounded before it is scaled; late, rounded behind that; shifted, late and
    # times 1 + scale; or layer, which has a mean and a bias too
    placement: str = "before"  # of norms: before attention and MLP, behind them, or both
    activation: str = "silu"  # of the MLP: silu, or gelu by its approximation with tanh
    gated: bool = True  # whether the MLP's units are multiplied by a gate
    rotary: bool = True  # whether positions turn queries and keys; else each has a vector that is learned
    experts: bool = False  # whether MLPs are some of many experts, chosen for each token
    caps: bool = False  # whether logits of attention and of tokens may be bounded
    local_rope: bool = False  # whether layers with a window have rotary positions of their own
    root_scale: bool = False  # whether the vectors that tokens come in as are scaled by sqrt(width)
    scales: tuple[str, ...] = ()  # which of `SCALES` may be other than usual


SCALES = "attention_scale", "embedding_scale", "residual_scale", "logit_divisor"
FAMILIES = {
    "llama": Family(mlp_bias=True),
    "mistral": Family(attention_bias=(False,), windows="all"),
    "qwen2": Family(attention_bias=(True,), out_bias=False, windows="each"),
    "qwen3": Family(head_norm="head", windows="each"),
    "qwen3_moe": Family(head_norm="head", windows="all", experts=True),
    "smollm3": Family(mlp_bias=True, windows="each", unrotated=True),
    "phi3": Family(attention_bias=(False,), windows="all"),
    "olmo2": Family(norm="late", head_norm="whole", placement="behind"),
    "granite": Family(mlp_bias=True, scales=SCALES),
    "gemma2": Family(
        norm="shifted",
        placement="both",
        activation="gelu",
        windows="each",
        caps=True,
        root_scale=True,
        scales=("attention_scale",),
    ),
    "gemma3_text": Family(
        norm="shifted",
        placement="both",
        activation="gelu",
        head_norm="head",
        windows="each",
        caps=True,
        local_rope=True,
        root_scale=True,
        scales=("attention_scale",),
    ),
    "gpt2": Family(
        attention_bias=(True,),
        mlp_bias=True,
        norm="layer",
        activation="gelu",
        gated=False,
        rotary=False,
    ),
}


class Architecture(NamedTuple):
    """The sizes of a decoder-only transformer. Without a family's name it is a Llama."""

    vocabulary: int  # tokens
    width: int  # numbers that stand for a token
    layers: int
    heads: int  # of queries
    inner: int  # units of an MLP
    length: int = 2048  # tokens of the longest text
    family: str = "llama"
    key_heads: int = 0  # of keys and values; 0: as many as of queries
    head_size: int = 0  # numbers of a head; 0: width / heads
    epsilon: float = 1e-6  # added to the mean square in a norm
    rope: Rope = Rope()
    attention_bias: bool = False  # of queries, keys and values, and, but in qwen2, of what attention returns
    mlp_bias: bool = False
    windows: tuple[int, ...] = ()  # of each layer: how many tokens it looks back on, itself counted; 0: all. (): all 0
    rotated: tuple[bool, ...] = ()  # of each layer: whether it knows positions. (): all
    tied: bool = True  # whether logits are products with the vectors that tokens come in as
    attention_scale: float = 0.0  # factor of the logits of attention; 0: 1 / sqrt(head size)
    embedding_scale: float = 1.0  # factor of the vectors that tokens come in as
    residual_scale: float = 1.0  # factor of what attention and MLP add
    logit_divisor: float = 1.0  # what logits are divided by
    attention_cap: float = 0.0  # bound c of attention's logits, c tanh(logit / c); 0: none
    logit_cap: float = 0.0  # bound of logits; 0: none
    local_rope: Rope | None = None  # rotary positions of layers with a window; `None`: as of all others
    experts: int = 0  # MLPs of a layer, of which each token has some; 0: one MLP, of all tokens
    chosen: int = 0  # experts of a token, those of its largest probabilities
    expert_inner: int = 0  # units of an expert
    normalised: bool = False  # whether the probabilities of the chosen experts are made to sum to 1
    dense: tuple[bool, ...] = ()  # of each layer: whether it has one MLP all the same. (): none

    def check(self) -> None:
        """Raise `ForageError` for sizes that do not divide, and for choices that the family does not have."""
        family = FAMILIES.get(self.family)
        if family is None:
            raise ForageError(f"There is no family of transformers {self.family!r}{nearest(self.family, FAMILIES)}")
        sizes = {name: getattr(self, name) for name in ("vocabulary", "width", "layers", "heads", "inner", "length")}
        if small := [name for name, value in sizes.items() if value < 1]:
            raise ForageError(f"{small[0]} of a transformer is 1 or more, not {sizes[small[0]]}.")
        if not self.head_size and self.width % self.heads:
            raise ForageError(
                f"A transformer of width {self.width} has no {self.heads} equal heads; its width must be a multiple of "
                f"its heads, or head_size be given."
            )
        if self.heads % self.kv_heads:
            raise ForageError(f"{self.heads} heads cannot share {self.kv_heads} of keys; take a number that divides.")
        for name in ("windows", "rotated", "dense"):
            if len(getattr(self, name)) not in (0, self.layers):
                raise ForageError(f"{name} has an entry for each of the {self.layers} layers, or none.")
        self._check_family(family)
        if family.rotary:
            for rope in {self.rope, self.local_rope or self.rope}:
                rope.check(self.size)
        if self.experts and not 1 <= self.chosen <= self.experts:
            raise ForageError(f"A token has 1 to {self.experts} of {self.experts} experts, not {self.chosen}.")
        if self.experts and self.expert_inner < 1:
            raise ForageError(f"expert_inner of a transformer is 1 or more, not {self.expert_inner}.")

    def _check_family(self, family: Family) -> None:
        """Raise `ForageError` for choices that the family does not have."""
        windows = set(self.windows) - {0}
        usual = self._field_defaults
        scaled = [name for name in SCALES if name not in family.scales and getattr(self, name) != usual[name]]
        wrong = None
        if self.attention_bias not in family.attention_bias:
            wrong = f"attention_bias={self.attention_bias}"
        elif self.mlp_bias and not family.mlp_bias:
            wrong = "biases in its MLPs"
        elif windows and family.windows == "none":
            wrong = "windows"
        elif len(windows) > 1 or (windows and family.windows == "all" and 0 in self.windows):
            wrong = f"windows {self.windows} of different lengths" if len(windows) > 1 else "layers without its window"
        elif not all(self.rotated) and not family.unrotated:
            wrong = "layers without positions"
        elif scaled:
            wrong = f"{scaled[0]}={getattr(self, scaled[0])}"
        elif (self.attention_cap or self.logit_cap) and not family.caps:
            wrong = "bounds of its logits"
        elif self.local_rope is not None and not family.local_rope:
            wrong = "positions of layers with a window"
        elif bool(self.experts) != family.experts:
            wrong = "experts" if self.experts else "no experts"
        if wrong:
            raise ForageError(f"A transformer of the family {self.family} cannot have {wrong}.")

    def canonical(self) -> Architecture:
        """Return the same architecture in its shortest form, which alone may be compared."""
        rope = self.rope._replace(original=0) if self.rope.kind == "linear" else self.rope
        return self._replace(
            key_heads=0 if self.key_heads == self.heads else self.key_heads,
            head_size=0 if self.head_size * self.heads == self.width else self.head_size,
            windows=self.windows if any(self.windows) else (),
            rotated=() if all(self.rotated) else self.rotated,
            rope=self.rope._replace(original=0, factor=1.0) if self.rope.kind == "default" else rope,
            attention_scale=0.0 if self.attention_scale == self.size**-0.5 else self.attention_scale,
            local_rope=self.local_rope if any(self.windows) and self.local_rope != self.rope else None,
            dense=self.dense if any(self.dense) else (),
        )

    @property
    def size(self) -> int:
        """Return the size of a head."""
        return self.head_size or self.width // self.heads

    @property
    def kv_heads(self) -> int:
        """Return the number of heads of keys and values."""
        return self.key_heads or self.heads

    @property
    def longest(self) -> int:
        """Return the largest number of tokens of a text."""
        cut = self.rope.kind in ("dynamic", "longrope")
        return min(self.length, self.rope.original or self.length) if cut else self.length

    @property
    def choices(self) -> Family:
        """Return the choices of the family."""
        return FAMILIES[self.family]

    @property
    def out_bias(self) -> bool:
        """Return whether the output projection of attention has a bias."""
        own = self.choices.out_bias
        return self.attention_bias if own is None else own

    @property
    def input_scale(self) -> float:
        """Return the factor of the vectors that tokens come in as."""
        return self.width**0.5 if self.choices.root_scale else self.embedding_scale

    @property
    def ropes(self) -> tuple[Rope, ...]:
        """Return the different rotary positions of layers."""
        return (self.rope,) if self.local_rope is None else (self.rope, self.local_rope)

    def rope_place(self, layer: int) -> int:
        """Return the place of a layer's rotary positions in `ropes`."""
        return int(self.local_rope is not None and self.window(layer) > 0)

    def is_sparse(self, layer: int) -> bool:
        """Return whether a layer has experts."""
        return self.experts > 0 and not (self.dense and self.dense[layer])

    def window(self, layer: int) -> int:
        """Return the number of tokens in a layer's attention window; 0 for all."""
        return self.windows[layer] if self.windows else 0

    def turns(self, layer: int) -> bool:
        """Return whether a layer turns queries and keys by their positions."""
        return self.choices.rotary and (self.rotated[layer] if self.rotated else True)
