"""A pretrained model of a directory is read once for a run, and refused if it has changed since."""

import jax
import pytest

from forage.agents.language.grpo import GRPO
from forage.config import references
from forage.core.types import ForageError
from forage.nn.language.architecture import Architecture
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
