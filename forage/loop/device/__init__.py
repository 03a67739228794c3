"""The loop in JAX, for one seed and for many."""
