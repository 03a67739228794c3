"""What happens next? Native environments in JAX, and adapters to environments of other libraries."""

from forage.environments.registry import HostFactory, canonical_id, list_environments, make, spec_of

__all__ = ["HostFactory", "canonical_id", "list_environments", "make", "spec_of"]
