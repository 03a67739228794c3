"""Names of other libraries are answered with existing parts of Forage, and never shadow one of them."""

import re

from forage.config.registry import tables
from forage.core.elsewhere import HERE_AS, METHODS, method_elsewhere


def test_methods_of_other_libraries_lead_to_parts_that_are_here():
    agents = tables()["agent"]
    names = [name for known in HERE_AS.values() for name in known]
    for title, (known, _, near) in METHODS.items():
        assert near and set(near) <= set(agents), title
        names += known
    assert len(set(names)) == len(names)
    assert not {name.replace("_", "-") for name in names} & set(agents)
    for here in HERE_AS:
        for port, part in re.findall(r"--(behaviour|rewards|memory|starts|tasks) ([a-z0-9-]+)", here):
            assert part in tables()[port], here
    assert method_elsewhere("ppo") is None and method_elsewhere("Double-DQN") == method_elsewhere("ddqn")
