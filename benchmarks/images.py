"""What the image network makes of a processor: images a second, and the share of its matrix-product peak.

    python benchmarks/images.py            batches of 32 and 256 images of 84x84x4; about three minutes
    python benchmarks/images.py --smoke    a look at whether it works

Three ways through the same weights: `rows`, which learning takes; one image at a time, mapped (`jax.vmap`), as an agent
acts; and XLA's own convolution. They take turns on one core, and the quickest time of each counts: whatever else the
machine does only adds to it. Writes results/IMAGES.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from forage.nn.layers import CNN, Conv

TABLE = Path(__file__).parent / "results" / "IMAGES.md"
SPACE = spaces.Box(0, 255, (84, 84, 4), np.uint8)
OPTIONS = {"xla_cpu_enable_concurrency_optimized_scheduler": False}  # as in training


def by_xla(network: CNN, images: jax.Array) -> jax.Array:
    """The same features, by `jax.lax.conv_general_dilated`."""

    def convolved(conv: Conv, x: jax.Array) -> jax.Array:
        kernel = conv.linear.weight.reshape(conv.kernel, conv.kernel, x.shape[-1], -1)
        strides = (conv.stride, conv.stride)
        y = jax.lax.conv_general_dilated(x, kernel, strides, "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jax.nn.relu(y + conv.linear.bias)

    x = images.astype(jnp.float32) * network.scale
    for conv in network.convolutions:
        x = convolved(conv, x)
    return jax.nn.relu(network.dense(x.reshape(len(x), -1)))


WAYS: dict[str, Callable[[CNN, jax.Array], jax.Array]] = {
    "rows": lambda network, images: network.rows(images),
    "mapped": lambda network, images: jax.vmap(network)(images),
    "XLA's convolution": by_xla,
}


def operations(network: CNN) -> tuple[int, int]:
    """Operations of matrix products for one image: forward, and forward with the gradients of the weights."""
    height, width, _ = SPACE.shape
    layers = []
    for conv in network.convolutions:
        height, width = conv.size(height, width)
        layers.append(2 * height * width * conv.linear.weight.size)
    layers.append(2 * network.dense.weight.size)
    forward = sum(layers)
    return forward, 3 * forward - layers[0]  # nobody asks for the gradient of the image


def compiled(function: Any, *arguments: Any) -> tuple[Any, float]:
    began = time.perf_counter()
    program = jax.jit(function, compiler_options=OPTIONS).lower(*arguments).compile()
    return program, time.perf_counter() - began


def measure(batch: int, seconds: float) -> list[dict[str, Any]]:
    """Of each way and kind: images a second, operations a second over those of a matrix product, seconds to compile."""
    network = jax.jit(lambda key: CNN(key, SPACE, 1.0))(jax.random.key(0))
    images = np.random.default_rng(0).integers(0, 256, (batch, *SPACE.shape)).astype(np.uint8)
    matrix = jnp.ones((1024, 1024))
    programs: dict[Any, Any] = {"peak": (compiled(jnp.matmul, matrix, matrix), (matrix, matrix))}
    for name, way in WAYS.items():

        def loss(network: CNN, images: jax.Array, way: Any = way) -> jax.Array:
            return (way(network, images) ** 2).mean()

        programs[name, "forward"] = (compiled(way, network, images), (network, images))
        programs[name, "gradient"] = (compiled(jax.grad(loss), network, images), (network, images))
    quickest = dict.fromkeys(programs, float("inf"))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or np.inf in quickest.values():
        for name, ((program, _), arguments) in programs.items():
            began = time.perf_counter()
            jax.block_until_ready(program(*arguments))
            quickest[name] = min(quickest[name], time.perf_counter() - began)
    peak = 2 * 1024**3 / quickest["peak"]
    forward, gradient = operations(network)
    rows = []
    for name in WAYS:
        for kind, each in (("forward", forward), ("gradient", gradient)):
            took = quickest[name, kind]
            (_, seconds_to_compile), _ = programs[name, kind]
            share = each * batch / took / peak
            row = {"batch": batch, "way": name, "kind": kind, "images": batch / took, "share": share}
            rows.append(row | {"compile": seconds_to_compile, "peak": peak / 1e9})
    return rows


def page(rows: list[dict[str, Any]]) -> str:
    peak = max(row["peak"] for row in rows)
    lines = [
        "# What the image network makes of a processor",
        "",
        "Images a second through the network of Mnih and others (2015) at 84x84x4, on one core, and in brackets the",
        f"share of what a product of two matrices of 1024 sustains there ({peak:.0f} GFLOP/s). The quickest of many",
        "runs of each, which took turns; beside it the seconds it takes to compile.",
        f"{platform.system()}, {os.cpu_count()} cores. Made by `python benchmarks/images.py`.",
        "",
        "| batch | | " + " | ".join(WAYS) + " |",
        "|---|---|" + "---|" * len(WAYS),
    ]
    for batch in sorted({row["batch"] for row in rows}):
        for kind in ("forward", "gradient"):
            cells = {r["way"]: r for r in rows if r["batch"] == batch and r["kind"] == kind}
            shown = " | ".join(
                f"{cells[way]['images']:,.0f} ({cells[way]['share']:.0%}, {cells[way]['compile']:.1f} s)"
                for way in WAYS
            )
            lines.append(f"| {batch} | {kind} | {shown} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of measuring, for each size of batch")
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 256])
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # before JAX starts its threads; elsewhere all cores take part
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows = []
    for batch in [2] if arguments.smoke else arguments.batches:
        rows += measure(batch, 0.0 if arguments.smoke else arguments.seconds)
    print(page(rows))
    if not arguments.smoke:
        TABLE.write_text(page(rows))


if __name__ == "__main__":
    main()
