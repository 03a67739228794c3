"""The ledger: what agents reach, how fast and at which cost, measured again and held against what was measured."""
