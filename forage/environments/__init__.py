"""The environments: native ones in JAX, and adapters to those of other libraries."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from forage.environments.registry import HostFactory, canonical_id, list_environments, make, spec_of

__all__ = ["HostFactory", "canonical_id", "list_environments", "make", "spec_of"]


def __getattr__(name: str) -> Any:
    """Import a name at its first use, so that reading the catalogue does not load JAX."""
    if name not in __all__:
        raise AttributeError(f"module 'forage.environments' has no attribute {name!r}")
    from forage.environments import registry

    return getattr(registry, name)
