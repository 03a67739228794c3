"""Every part of the core has a row in docs/core-parts.md with its reason, and every row is a part."""

import re
from pathlib import Path

import pytest

from forage.config.registry import PORTS

PAGE = Path(__file__).parents[2] / "docs" / "core-parts.md"
TEXT = PAGE.read_text()
LIBRARIES = {
    *("Stable-Baselines3", "sb3-contrib", "sbx", "CleanRL", "rejax", "Brax", "d3rlpy", "TRL", "TorchRL", "RLlib"),
    *("Tianshou", "ACME", "verl", "OpenRLHF", "imitation", "CORL", "Sample Factory", "JaxMARL", "JaxUED", "minimax"),
    *("OpenSpiel", "evosax", "mctx", "LightZero", "OmniSafe", "morl-baselines"),
}
DEFAULTS = {"policy", "environment", "same", "reset"}


def rows(port: str) -> dict[str, str]:
    """Return the reason of each part of a port."""
    section = TEXT.split(f"\n## {port.capitalize()}\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| ([a-z0-9-]+) \| (.+) \|$", section, re.MULTILINE))


@pytest.mark.parametrize("port", PORTS)
def test_every_part_has_a_reason(port):
    found = rows(port)
    assert list(found) == list(PORTS[port])
    for name, reason in found.items():
        named = set(re.sub(r" \(.*\)$", "", reason).split(", ")) - {""}
        if name in DEFAULTS:
            assert reason == "default of the loop"
            continue
        assert named <= LIBRARIES, f"{name}: {named - LIBRARIES}"
        assert len(named) == 2, f"{name} is of one paper alone: it belongs in the package of papers"
