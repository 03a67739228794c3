"""Text: from characters to tokens and back, and from a dialogue to the text that a model reads."""
