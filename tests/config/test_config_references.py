"""A pretrained model of a directory is read once for a run, and refused if it has changed since."""

import json

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.agents.language.grpo import GRPO
from forage.config import references
from forage.core.types import ForageError
from forage.nn.language import lora
from forage.nn.language.architecture import Architecture
from forage.nn.language.peft import save_adapters, tokenizer_directory
from forage.nn.transformer import Transformer

SMALL = Architecture(vocabulary=12, width=4, layers=1, heads=1, inner=4, length=8)


def test_a_model_is_read_once_and_not_where_it_has_changed(tmp_path, monkeypatch):
    asked, read = [], references.read_model
    monkeypatch.setattr(references, "read_model", lambda source: asked.append(source) or read(source))
    network = Transformer(jax.random.key(0), SMALL)
    known = references.take_models(GRPO(model=str(network.save(tmp_path / "model"))))
    assert known.base_model.weights is None
    for reads in (1, 2):  # a second run reads the files again: weights are held for one alone
        found = references.load_models(known).base_model.weights
        assert len(asked) == reads and (found.table == network.table).all()
    Transformer(jax.random.key(1), SMALL).save(tmp_path / "model")
    with pytest.raises(ForageError, match="have changed since this run began"):
        references.load_models(known)


def test_adapters_are_a_model_with_their_base(tmp_path, monkeypatch):
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    monkeypatch.chdir(tmp_path)
    network = Transformer(jax.random.key(0), SMALL)
    network.save(tmp_path / "base")
    a, b = jnp.full((4, 1), 0.5), jnp.full((1, 4), 2.0)
    where = lambda one: [one.blocks[0].queries.lora_a, one.blocks[0].queries.lora_b]  # noqa: E731
    adapted = lora.map_projections(network, lambda layer, name, one: one)
    adapted = equinox.tree_at(where, adapted, [a, b], is_leaf=lambda x: x is None)
    for named, source in ((str(tmp_path / "base"), "adapters"), ("nobody/model", "adapters@base")):
        save_adapters(adapted, "adapters", named)
        found = references.take_models(GRPO(model=source)).base_model
        assert found.source == str(tmp_path / "adapters") + (f"@{tmp_path / 'base'}" if "@" in source else "")
        read = references.read_model(found.source)
        assert read.blocks[0].queries.lora_a is None
        np.testing.assert_allclose(read.blocks[0].queries.weight, network.blocks[0].queries.weight + a @ b, rtol=1e-6)
    assert tokenizer_directory("adapters@base").name == "base" and tokenizer_directory("base").name == "base"
    (tmp_path / "adapters" / "tokenizer.json").write_text("{}")
    assert tokenizer_directory("adapters@base").name == "adapters"
    config = json.loads((tmp_path / "adapters" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["target_modules"]) == (1, 1.0, ["q_proj"])
    with pytest.raises(ForageError, match="names 'nobody/model', which is no directory here; give the model that"):
        references.read_model("adapters")
    with pytest.raises(ForageError, match="is a GGUF file"):
        references.read_model("model.gguf")
