"""Compute TRL's own numbers on one small batch, and write them next to this file as `trl_numbers.json`.

    python tests/ops/tokens/data/make_trl_numbers.py

It needs `trl` and `torch`, which the tests do not: they read the file. TRL's trainers are not made; their methods
that compute losses are called as they are, on objects that hold the few attributes those read, with log-probabilities
and logits of the batch in the place of a model's. What TRL computes amid sampling (advantages, the sampler's weights)
is had by running its own lines of source.
"""

from __future__ import annotations

import inspect
import json
import textwrap
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import trl
from trl.experimental.a2po.a2po_trainer import A2POTrainer
from trl.experimental.cpo.cpo_trainer import CPOTrainer
from trl.experimental.gkd.gkd_trainer import GKDTrainer
from trl.experimental.gmpo.gmpo_trainer import GMPOTrainer
from trl.rewards import get_soft_overlong_punishment
from trl.trainer import grpo_trainer, rloo_trainer
from trl.trainer.dpo_trainer import DPOTrainer
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.kto_trainer import KTOTrainer
from trl.trainer.rloo_trainer import RLOOTrainer
from trl.trainer.utils import nanstd

torch.set_default_dtype(torch.float64)
SEQUENCES, TIME, VOCABULARY = 6, 5, 7
LENGTHS = [5, 3, 4, 1, 5, 2]
random = np.random.default_rng(0)


def draw(*shape: int, low: float, high: float) -> list:
    return np.round(random.uniform(low, high, shape), 4).tolist()


BATCH: dict[str, Any] = {
    "log_probability": draw(SEQUENCES, TIME, low=-3, high=-0.1),
    "advantage": [1.3, -0.7, 0.4, -1.6, 0.0, 0.9],
    "mask": [[int(t < length) for t in range(TIME)] for length in LENGTHS],
    "entropy": draw(SEQUENCES, TIME, low=0, high=2),
    "logits": draw(SEQUENCES, TIME, VOCABULARY, low=-2, high=2),
    "teacher": draw(SEQUENCES, TIME, VOCABULARY, low=-2, high=2),
    "token": random.integers(0, VOCABULARY, (SEQUENCES, TIME)).tolist(),
    "reward": [[1.0, 0.0, 0.5, 0.25], [0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]],
    "chosen": [-5.2, -3.1, -7.4],
    "rejected": [-4.9, -6.0, -7.2],
    "reference_chosen": [-5.0, -3.9, -7.0],
    "reference_rejected": [-5.5, -5.1, -8.1],
}
for name, spread in (("old_log_probability", 0.6), ("reference", 1.0), ("sampler_log_probability", 0.8)):
    BATCH[name] = np.round(np.array(BATCH["log_probability"]) + random.uniform(-spread, spread, (SEQUENCES, TIME)), 4)
    BATCH[name] = BATCH[name].tolist()
T = {name: torch.tensor(value) for name, value in BATCH.items()}


def trainer(kind: type, **attributes: Any) -> SimpleNamespace:
    """Return an object with the attributes that TRL's losses read of a single trainer, and its methods."""
    accelerator = SimpleNamespace(
        gather=lambda x: x,
        gather_for_metrics=lambda x: x,
        reduce=lambda x, reduction=None: x,
        pad_across_processes=lambda x, dim=0, pad_index=0: x,
        device="cpu",
        num_processes=1,
        sync_gradients=True,
        unwrap_model=lambda model: model,
    )
    self = SimpleNamespace(
        accelerator=accelerator,
        model=SimpleNamespace(training=True),
        _metrics={"train": defaultdict(list), "eval": defaultdict(list)},
        _total_train_tokens=0,
        _tp_size=1,
        current_gradient_accumulation_steps=1,
        aux_loss_enabled=False,
        use_vllm=False,
        vllm_importance_sampling_correction=False,
        _entropy_bonus_enabled=False,
        use_adaptive_entropy=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level="token",
        beta=0.0,
        epsilon_low=0.2,
        epsilon_high=0.28,
        max_completion_length=8,
    )
    for key, value in attributes.items():
        setattr(self, key, value)
    for name in ("get_off_policy_mask", "get_gamma_weights", "get_high_entropy_mask"):
        if hasattr(kind, name):
            static = isinstance(inspect.getattr_static(kind, name), staticmethod)
            method = getattr(kind, name)
            setattr(self, name, method if static else lambda *args, method=method: method(self, *args))
    return self


def policy(kind: type = GRPOTrainer, args: dict[str, Any] | None = None, **attributes: Any) -> dict[str, Any]:
    """Return a loss of tokens and its gradient in the log-probabilities."""
    now = T["log_probability"].clone().requires_grad_(True)
    numbers = {"delta": None, "use_bias_correction_kl": False, "steps_per_generation": 1}
    numbers |= {"sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05}
    numbers |= {"vespo_k_pos": 2.0, "vespo_lambda_pos": 3.0, "vespo_k_neg": 3.0, "vespo_lambda_neg": 2.0}
    self = trainer(kind, args=SimpleNamespace(**(numbers | (args or {}))), **attributes)
    self._get_per_token_logps_and_entropies = lambda *a, **k: (now, T["entropy"], None)
    ids = torch.zeros(SEQUENCES, TIME, dtype=torch.long)
    mask = T["mask"]
    inputs = {
        "prompt_ids": ids[:, :1],
        "prompt_mask": torch.ones_like(ids[:, :1]),
        "completion_ids": ids,
        "completion_mask": mask,
        "advantages": T["advantage"],
        "old_per_token_logps": T["old_log_probability"],
        "ref_per_token_logps": T["reference"],
        "sampling_per_token_logps": T["sampler_log_probability"],
        "num_items_in_batch": mask.sum(),
        "old_logps": (T["old_log_probability"] * mask).sum(1),
    }
    loss = kind._compute_loss(self, self.model, inputs)
    loss.backward()
    return {"loss": loss.item(), "gradient": now.grad.tolist()}


def lines(module: Any, first: str, last: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run the lines of a module's source from the one with `first` to the one with `last`."""
    text = inspect.getsource(module).split("\n")
    start = next(i for i, line in enumerate(text) if first in line)
    end = next(i for i in range(start, len(text)) if last in text[i])
    exec(textwrap.dedent("\n".join(text[start : end + 1])), names)
    return names


def advantages() -> dict[str, Any]:
    """Return TRL's advantages of groups."""
    found, reward = {}, T["reward"].reshape(-1)
    for scale in ("group", "batch", "none"):
        self = SimpleNamespace(
            multi_objective_aggregation="sum_then_normalize", scale_rewards=scale, reward_weights=torch.ones(1)
        )
        names = {"torch": torch, "nanstd": nanstd, "self": self, "device": "cpu", "num_generations": 4}
        names |= {"rewards_per_func": reward[:, None], "unscorable_mask": torch.zeros(len(reward), dtype=torch.bool)}
        first, last = "if self.multi_objective_aggregation ==", "advantages = torch.nan_to_num"
        found[scale] = lines(grpo_trainer, first, last, names)["advantages"].reshape(3, 4).tolist()
    for normalise in (False, True):
        names = {"torch": torch, "nanstd": nanstd, "rewards": reward, "num_generations": 4}
        names["self"] = SimpleNamespace(normalize_advantages=normalise)
        first, last = "grouped_rewards = rewards.view", "advantages = torch.nan_to_num"
        found["rloo-normalised" if normalise else "rloo"] = (
            lines(rloo_trainer, first, last, names)["advantages"].reshape(3, 4).tolist()
        )
    return found


def shift(values: torch.Tensor) -> torch.Tensor:
    """Put a column before the first place, since TRL's logits at a place are for the token at the next."""
    return torch.cat([torch.zeros_like(values[:, :1]), values], dim=1)


def model(logits: torch.Tensor) -> Any:
    """Return a model with TRL's outputs for given labels: log-probabilities, 0 for a label of -100."""

    def forward(labels: torch.Tensor, **_: Any) -> SimpleNamespace:
        label = labels[:, 1:]
        every = torch.log_softmax(logits, -1)
        chosen = every.gather(-1, label.clamp(min=0)[..., None])[..., 0]
        return SimpleNamespace(
            log_probs=torch.where(label == -100, 0.0, chosen),
            entropy=-(every.exp() * every).sum(-1),
            mean_logits=logits.mean(-1),
            is_top1=logits.argmax(-1) == label,
        )

    return forward


def preference(kind: str, smoothing: float = 0.0) -> float:
    """Return a loss of the first three sequences, chosen, and the last three, rejected."""
    self = trainer(
        DPOTrainer,
        beta=0.3,
        ld_alpha=None,
        precompute_ref_logps=False,
        ref_model=model(T["teacher"]),
        use_weighting=False,
    )
    self.f_divergence_type, self.loss_types, self.loss_weights = "reverse_kl", [kind], [1.0]
    self.label_smoothing = smoothing
    self.args = SimpleNamespace(gradient_checkpointing=False, gradient_checkpointing_kwargs=None)
    self.model = torch.nn.Identity()  # is asked whether it is wrapped, and no more
    self.model.is_gradient_checkpointing = False
    inputs = {"input_ids": shift(T["token"]), "completion_mask": shift(T["mask"])}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    return DPOTrainer._compute_loss(self, model(T["logits"]), inputs, False).item()


def kto() -> float:
    """Return the loss of all sequences, wanted or not by turns; the next one's is the answer to another prompt."""
    self = trainer(KTOTrainer, beta=0.3, loss_type="kto", calculate_KL=True, precompute_ref_logps=False)
    self.desirable_weight, self.undesirable_weight, self.use_liger_kernel = 1.0, 1.5, False
    self.ref_model = model(T["teacher"])
    self.args = SimpleNamespace(gradient_checkpointing=False, gradient_checkpointing_kwargs=None)
    self.model = torch.nn.Identity()  # is asked whether it is wrapped, and no more
    self.model.is_gradient_checkpointing = False
    self._compute_kl_logps = lambda model, batch: KTOTrainer._compute_kl_logps(self, model, batch)
    moved, ones = torch.roll(T["token"], 1, 0), torch.ones(SEQUENCES, TIME + 1, dtype=torch.long)
    inputs = {"input_ids": shift(T["token"]), "completion_mask": shift(T["mask"]), "attention_mask": ones}
    inputs |= {"KL_input_ids": shift(moved), "KL_completion_mask": shift(T["mask"]), "KL_attention_mask": ones}
    inputs["label"] = torch.tensor([True, False] * 3)
    return KTOTrainer._compute_loss(self, model(T["logits"]), inputs, False).item()


def contrast(kind: str, beta: float) -> list[float]:
    self = trainer(CPOTrainer, alpha=0.0, loss_type=kind, beta=beta, simpo_gamma=0.5, label_smoothing=0.0)
    return CPOTrainer.cpo_loss(self, T["chosen"], T["rejected"])[0].tolist()


def with_likelihood() -> float:
    """Return CPO's whole loss, including the likelihood of the chosen answers; here it is their -log pi."""
    self = trainer(CPOTrainer, alpha=0.0, cpo_alpha=0.7, loss_type="sigmoid", beta=0.3, label_smoothing=0.0)
    self.cpo_loss = lambda *pair: CPOTrainer.cpo_loss(self, *pair)
    self.concatenated_forward = lambda *_: (T["chosen"], T["rejected"], T["logits"], T["logits"], -T["chosen"].mean())
    return CPOTrainer.get_batch_loss_metrics(self, None, {})[0].item()


def charge() -> list[float]:
    """Return rewards after RLOO's penalty for divergence from the reference; here they are the advantages."""
    names = {"self": SimpleNamespace(beta=0.1), "gather": lambda x: x, "rewards": T["advantage"]}
    names |= {"old_per_token_logps": T["old_log_probability"], "ref_per_token_logps": T["reference"]}
    first, last = "per_token_kl = old_per_token_logps - ref_per_token_logps", "rewards = rewards - self.beta * kl"
    return lines(rloo_trainer, first, last, names | {"completion_mask": T["mask"]})["rewards"].tolist()


def regression() -> float:
    self = trainer(A2POTrainer, args=SimpleNamespace(beta2=0.2))
    self._get_sequence_logps = lambda *a: T["chosen"]
    inputs = dict.fromkeys(("input_ids", "attention_mask", "logits_to_keep"))
    inputs |= {"ref_logps": T["reference_chosen"], "rewards": T["reward"][:, 0], "v_star": T["reward"].mean(1)}
    return A2POTrainer.compute_loss(self, None, inputs).item()


def corrections() -> dict[str, Any]:
    """Return the weights of a sampler that is not the policy."""
    found = {}
    for rule in ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask"):
        self = SimpleNamespace(
            vllm_importance_sampling_mode=rule,
            vllm_importance_sampling_clip_min=0.7,
            vllm_importance_sampling_clip_max=1.4,
        )
        names = {"torch": torch, "math": __import__("math"), "self": self, "tool_mask": None}
        names |= {"completion_mask": T["mask"], "old_per_token_logps": T["old_log_probability"]}
        names["sampling_per_token_logps"] = T["sampler_log_probability"]
        first, last = (
            "mask = completion_mask if tool_mask is None else completion_mask * tool_mask",
            "raise ValueError(",
        )
        text = inspect.getsource(grpo_trainer).split("\n")
        start = next(i for i, line in enumerate(text) if "per_token_logps_diff = (old_per_token_logps" in line) - 1
        assert first in text[start]
        end = next(i for i in range(start, len(text)) if last in text[i])
        exec(textwrap.dedent("\n".join([*text[start:end], " " * 20 + "raise AssertionError"])), names)
        found[rule.replace("_", "-")] = names["vllm_importance_sampling_ratio"].expand(SEQUENCES, TIME).tolist()
    return found


def distillation(beta: float) -> float:
    labels = torch.where(T["mask"].bool(), T["token"], -100)
    return GKDTrainer.generalized_jsd_loss(T["logits"], T["teacher"], labels, beta, temperature=1.5).item()


def main() -> None:
    sequence = {"importance_sampling_level": "sequence", "epsilon_low": 3e-4, "epsilon_high": 4e-4}
    numbers = {
        "grpo": policy(loss_type="grpo"),
        "bnpo": policy(loss_type="bnpo"),
        "dr_grpo": policy(loss_type="dr_grpo"),
        "dapo": policy(loss_type="dapo"),
        "luspo": policy(loss_type="luspo", **sequence),
        "gspo": policy(loss_type="grpo", **sequence),
        "gmpo": policy(GMPOTrainer, loss_type="gmpo", epsilon_low=0.4, epsilon_high=0.4),
        "cispo": policy(loss_type="cispo", epsilon_high=1.1),
        "sapo": policy(loss_type="sapo"),
        "vespo": policy(loss_type="vespo"),
        "delta": policy(loss_type="dapo", args={"delta": 1.35}),
        "kl": policy(loss_type="dapo", beta=0.1),
        "kl-weighted": policy(loss_type="dapo", beta=0.1, args={"use_bias_correction_kl": True}),
        "high-entropy": policy(loss_type="dapo", top_entropy_quantile=0.3),
        "entropy": policy(loss_type="dapo", _entropy_bonus_enabled=True, entropy_coef=0.1),
        "off-policy-mask": policy(loss_type="dapo", off_policy_mask_threshold=0.05),
        "rloo": policy(RLOOTrainer),
    }
    preferences = {kind: preference(kind) for kind in ("sigmoid", "ipo", "hinge", "sft")}
    preferences["robust"] = preference("robust", 0.1)
    preferences |= {"kto": kto(), "simpo": contrast("simpo", 2.0), "cpo": contrast("sigmoid", 0.3)}
    preferences["cpo-likelihood"] = with_likelihood()
    text = {
        "made by": f"make_trl_numbers.py with trl {trl.__version__} and torch {torch.__version__}",
        "batch": BATCH,
        "policy": numbers,
        "advantages": advantages(),
        "corrections": corrections(),
        "preferences": preferences,
        "charged": charge(),
        "regression": regression(),
        "distillation": {str(beta): distillation(beta) for beta in (0, 0.3, 1)},
        "overlong": get_soft_overlong_punishment(10, 4)([[0] * n for n in (3, 6, 8, 10, 12)]),
    }
    (Path(__file__).parent / "trl_numbers.json").write_text(json.dumps(text, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
