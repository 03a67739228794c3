"""The one error type. Imports nothing, so that the command line can answer before JAX is loaded."""


class ForageError(Exception):
    """Something a person can mend. Its text is one sentence: what was wrong and what would have worked."""


class Interrupted(ForageError):
    """A person stopped the run; all is saved."""
