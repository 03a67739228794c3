"""An exported policy behind HTTP: requests checked, answered in batches, and the server. Loads no JAX."""
