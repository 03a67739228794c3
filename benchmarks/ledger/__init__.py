"""The ledger: agents' scores, speed and cost, measured again and compared with the recorded figures."""
