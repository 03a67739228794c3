"""Running episodes of text: their course, their starts, their words, and the judgement on them."""
