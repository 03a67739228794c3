"""Other libraries of environments in JAX."""
