"""Environments made of another environment. By name: `forage.config.registry.WRAPPERS`."""

from forage.core.fields import with_fields
from forage.environments.wrappers.actions import Delay, FlatActions, RescaleAction, StickyActions
from forage.environments.wrappers.base import Wrapper, WrapperState
from forage.environments.wrappers.images import FrameStack, Grey, Resize
from forage.environments.wrappers.noisy_tv import NoisyTV
from forage.environments.wrappers.selection import ContextVisible, SelectEntries
from forage.environments.wrappers.time import ActionRepeat, TimeAware, TimeLimit

__all__ = [
    "ActionRepeat",
    "ContextVisible",
    "Delay",
    "FlatActions",
    "FrameStack",
    "Grey",
    "NoisyTV",
    "RescaleAction",
    "Resize",
    "SelectEntries",
    "StickyActions",
    "TimeAware",
    "TimeLimit",
    "Wrapper",
    "WrapperState",
    "with_fields",
]
