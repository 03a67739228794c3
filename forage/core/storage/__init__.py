"""Bytes of a run and of a data set: read without running any code, and written whole or not at all."""
