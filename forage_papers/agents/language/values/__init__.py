"""Language agents of single papers that learn values of tokens."""
