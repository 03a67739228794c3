"""The division of a transformer among devices: rules by hand, shapes alone."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

from forage.agents.language.grpo import GRPO
from forage.agents.language.sft import SFT
from forage.core.errors import ForageError
from forage.core.mesh import ENV, MODEL, ONE, Shape, parse_mesh, part_of, partition_tree, sharing_words
from forage.nn.language.architecture import Architecture
from forage.nn.language.lora import add_adapters
from forage.nn.language.memory import cache_bytes, tree_bytes, update_bytes
from forage.nn.language.partition import cache_axes, computed_in_parts, kept_in_parts
from forage.nn.transformer import Transformer
from forage.ops.optimiser import adam

LLAMA = Architecture(vocabulary=96, width=16, layers=1, heads=8, key_heads=4, inner=24, length=32, tied=False)
EXPERTS = LLAMA._replace(family="qwen3_moe", experts=4, chosen=2, expert_inner=8, normalised=True)
BOTH = (MODEL, ENV)


@pytest.mark.parametrize(
    ("kind", "sizes", "shape", "kept", "computed"),
    [
        # vocabulary width
        ("table", (96, 16), (1, 2, 4), P(MODEL, ENV), P(MODEL)),
        ("head", (96, 16), (1, 8, 1), P(None, ENV), P()),
        ("table", (96, 16), (1, 1, 8), P(MODEL), P(MODEL)),
        # inputs outputs: columns, then rows
        ("queries.weight", (16, 16), (1, 2, 4), P(ENV, MODEL), P(None, MODEL)),
        ("up.weight", (16, 24), (1, 2, 4), P(ENV, MODEL), P(None, MODEL)),
        ("out.weight", (16, 16), (1, 2, 4), P(MODEL, ENV), P(MODEL)),
        ("down.weight", (24, 16), (1, 4, 2), P(MODEL, ENV), P(MODEL)),
        ("queries.bias", (16,), (1, 2, 4), P(MODEL), P(MODEL)),
        # four heads of keys by eight: kept by inputs, computed whole
        ("keys.weight", (16, 8), (1, 1, 8), P(MODEL), P()),
        ("queries.weight", (16, 16), (1, 1, 8), P(MODEL), P()),
        ("keys.bias", (8,), (1, 1, 8), P(MODEL), P()),
        # both along one axis, where the other does not divide
        ("keys.weight", (16, 7), (1, 2, 8), P(BOTH), P()),
        # inputs rank, and rank outputs
        ("up.lora_a", (16, 3), (1, 2, 4), P(BOTH), P()),
        ("up.lora_b", (3, 24), (1, 2, 4), P(None, BOTH), P(None, MODEL)),
        ("down.lora_a", (24, 3), (1, 2, 4), P(BOTH), P(MODEL)),
        ("down.lora_b", (3, 16), (1, 2, 4), P(None, BOTH), P()),
        # expert width inner
        ("experts.gate", (4, 16, 8), (1, 2, 4), P(None, ENV, MODEL), P(None, None, MODEL)),
        ("experts.down", (4, 8, 16), (1, 2, 4), P(None, MODEL, ENV), P(None, MODEL)),
        ("experts.gate", (4, 16, 8), (1, 1, 16), P(None, MODEL), P()),
        ("experts.router", (16, 4), (1, 2, 4), P(BOTH), P()),
        # norms, biases of outputs, heads of a critic, moments of another shape, sizes that nothing divides
        ("attention_norm", (16,), (1, 2, 4), P(), P()),
        ("out.bias", (16,), (1, 2, 4), P(), P()),
        ("table", (96,), (1, 2, 4), P(), P(MODEL)),
        ("up.weight", (7, 5), (1, 3, 1), P(None, None), P()),
    ],
)
def test_rules_by_hand(kind, sizes, shape, kept, computed):
    architecture = EXPERTS if "experts" in kind else LLAMA
    found = kept_in_parts(kind, sizes, architecture, Shape(*shape))
    assert tuple(found) + (None,) * (len(sizes) - len(found)) == tuple(kept) + (None,) * (len(sizes) - len(kept))
    assert computed_in_parts(kind, sizes, architecture, Shape(*shape)) == computed
    seeds = kept_in_parts(kind, (5, *sizes), architecture, Shape(*shape), before=1)
    assert tuple(seeds)[1:] == tuple(found) or not any(found)


def test_moments_and_adapters_lie_as_their_weights_do():
    network = jax.eval_shape(lambda: Transformer(jax.random.key(0), LLAMA))
    shape = Shape(1, 2, 4)
    state = jax.eval_shape(adam(1e-3, max_gradient_norm=1.0).init, network)
    axes = partition_tree({"network": network, "state": state, "count": jnp.int32(0)}, shape)
    moments = [axes["state"][1][0].mu, axes["state"][1][0].nu]
    assert axes["count"] == P() and all(jax.tree.leaves(m) == jax.tree.leaves(axes["network"]) for m in moments)
    # An eighth of all but norms
    norms = 3 * 16 * 4
    assert tree_bytes(network, shape) == (tree_bytes(network) - norms) // 8 + norms
    assert tree_bytes(network, Shape(1, 1, 8)) == tree_bytes(network, Shape(1, 8)) == tree_bytes(network, shape)
    adapted = jax.eval_shape(lambda: add_adapters(network_like(network), jax.random.key(0), 2, 2.0, ("down", "keys")))
    axes = adapted.partition(shape).blocks[0]
    assert (axes.down.lora_a, axes.keys.lora_b) == (P(BOTH, None), P(None, BOTH))
    experts = jax.eval_shape(lambda: Transformer(jax.random.key(0), EXPERTS))
    assert experts.partition(shape).blocks[0].experts.gate == P(None, ENV, MODEL)


def network_like(shapes):
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)


def test_caches_are_divided_by_rows_and_heads():
    assert cache_axes(8, LLAMA, Shape(1, 2, 4)) == P((ENV,), MODEL)
    assert cache_axes(8, LLAMA, Shape(1, 1, 8)) == P((ENV, MODEL), None)
    assert cache_axes(6, LLAMA, Shape(1, 2, 8)) == P((ENV,), None)
    assert cache_axes(5, LLAMA, Shape(1, 2, 4)) == P(None, MODEL)
    network = jax.eval_shape(lambda: Transformer(jax.random.key(0), LLAMA))
    whole = cache_bytes(network, 8, 10)
    assert whole == 2 * 8 * 10 * 4 * 2 * 4 and cache_bytes(network, 8, 10, Shape(1, 2, 4)) == whole // 8


def test_memory_of_an_update_is_that_of_each_device():
    network = jax.eval_shape(lambda: Transformer(jax.random.key(0), LLAMA))
    one, many = (update_bytes(network, network, 16, 4, 4, False, 0, shape) for shape in (ONE, Shape(1, 2, 4)))
    assert many["gradients"] == 2 * tree_bytes(network, Shape(1, 2, 4)) < one["gradients"] // 5
    assert many["logits"] == one["logits"] // 8 and one["layers"] // 8 < many["layers"] < one["layers"] // 2
    assert many["gathered"] == (2 * tree_bytes(network.blocks[0]) + 2 * 96 * 16 * 4) // 4 and "gathered" not in one


def test_rows_that_a_mesh_cannot_share_are_refused():
    for agent, offline, says in (
        (GRPO(num_envs=6), False, "data:4 cannot share num_envs 6 equally; take numbers that 4 divides"),
        (GRPO(num_envs=8, accumulate=4), False, "num_envs 8 equally, of which 2 are computed at once;"),
        (SFT(batch_size=6, num_envs=8), True, "data:4 cannot share batch_size 6 equally;"),
    ):
        with pytest.raises(ForageError, match=says):
            agent.check_mesh(Shape(1, 4, 2), offline)
    GRPO(num_envs=8, accumulate=2).check_mesh(Shape(1, 4, 2), False)
    SFT(batch_size=8, num_envs=6).check_mesh(Shape(1, 4, 2), True)


def test_words_of_a_mesh():
    assert parse_mesh("data:2,model:4") == Shape(1, 2, 4) == parse_mesh(" model:4, data:2")
    assert parse_mesh("data:8") == Shape(1, 8) and str(Shape(1, 8)) == "data:8,model:1"
    for wrong in ("8", "data", "data:0", "data:2,data:4", "fsdp:8", "data:-1", "", "data:2;model:4", "data:1.5"):
        with pytest.raises(ForageError, match="A mesh is a number of devices for data, for model or for both, as in"):
            parse_mesh(wrong)
    for count, shape in ((8, (1, 2, 4)), (7, (1, 1, 4)), (4, (1, 1, 4)), (3, (1, 1, 2)), (1, (1, 1, 1))):
        assert Shape(1, 2, 4).fit_devices(count) == Shape(*shape)
    assert part_of(P(BOTH, None), Shape(3, 2, 4)) == 8 and part_of(P(), Shape(1, 2, 4)) == 1
    network = jax.eval_shape(lambda: Transformer(jax.random.key(0), LLAMA._replace(vocabulary=97)))
    assert sharing_words(network, ONE) == sharing_words((), Shape(1, 8)) == ""
    assert sharing_words(network, Shape(1, 8)) == "weights in parts on 8 devices, data:8,model:1"
    assert sharing_words([network, network], Shape(1, 1, 8)) == (
        "weights in parts on 8 devices, data:1,model:8; model:8 does not divide a vocabulary of 97, computed whole; "
        "4 heads of keys, computed by rows"
    )
