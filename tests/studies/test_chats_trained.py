"""Runs on conversations whose chat template alters earlier turns: each turn is scored behind its own context."""

import json
import warnings

import jax
import numpy as np
import pytest
import small

import forage
from forage.core.text import named
from forage.core.text.own import BytePairs
from forage.nn.language.architecture import Architecture
from forage.nn.language.directory import with_tokens
from forage.nn.transformer import Transformer
from forage.runs.run import Run

pytestmark = pytest.mark.thorough
pytest.importorskip("jinja2", reason="jinja2 is not installed")
small.keep_compiled()

TEMPLATE = """{% for message in messages %}{{ '[' + message.role + ']' + message.content + '<|stop|>' }}{% endfor %}
{%- if add_generation_prompt %}[assistant]{{ '' if enable_thinking else '<think></think>' }}{% endif %}"""
"""A template that puts an empty thought behind the last prompt alone, as Qwen3's without thinking."""


@pytest.mark.parametrize(("history", "altered"), [("template", True), ("written", False)])
def test_each_turn_is_scored_behind_its_own_context(history, altered, tmp_path):
    ours = named.tokenizer("forage")
    words = BytePairs(ours.pairs, (*list(ours.special)[2:], "<|stop|>"), TEMPLATE)
    shape = Architecture(vocabulary=words.vocabulary, width=16, layers=1, heads=2, inner=16, length=256)
    network = jax.tree.map(lambda x: x if x.ndim == 1 else 5 * x, Transformer(jax.random.key(0), shape))
    with_tokens(network, (words.special["<|stop|>"], words.end), words.pad).save(words.save(tmp_path / "model"))
    options = {"tokenizer": str(tmp_path / "model"), "chat": True, "turns": 3, "context": 160, "response": 6}
    given = {"steps": 48, "seeds": [0], "evaluation_episodes": 4, "display": "quiet"}
    train = {"model": str(tmp_path / "model"), "num_envs": 4, "group_size": 4, "entropy_coefficient": 0.1}
    learned = []
    for name, steps in (("once", 48), ("twice", 24)):
        run = tmp_path / name
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            forage.train(
                "grpo",
                "text:guess",
                agent_options=train,
                environment_options={**options, "history": history},
                directory=run,
                **(given | {"steps": steps}),
            )
            if steps < 48:
                forage.resume(run, steps=48, display="quiet")
        assert any("alters earlier turns" in str(one.message) for one in said) == altered
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        gaps = [row["sampler_gap"] for row in rows if "sampler_gap" in row]
        assert gaps and np.max(gaps) < 1e-5
        assert Run(run).config["environment"]["options"]["history"] == history
        learned.append(jax.tree.leaves(forage.load(run).state.network))
    for one, other in zip(*learned, strict=True):
        np.testing.assert_array_equal(one, other)
