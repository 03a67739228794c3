"""Operators of learning with sequences of tokens: advantages, losses, divergences, preferences.

Conventions shared by every file here:

- `log_probability[sequence, time]` is log pi(token | what stands before it) of the token that was chosen.
- `mask[sequence, time]` is true where the policy wrote the token. What stands elsewhere, be it infinite or not a
  number, changes no value, and its gradient is exactly zero.
- `advantage` is `sequence time`, or `sequence 1` where it is one number for the whole answer. No gradient flows into
  it.
- Rewards of several answers to one prompt are `group answer`: one row a prompt.
- A loss is minimised. Losses of tokens are arrays; `masks.aggregate` makes one number of them.
- Tables name what an option may choose; an unknown name is a `ForageError` that says which there are.
"""
