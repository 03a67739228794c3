"""The loop: collect, remember, learn. Knows the contracts and no part."""
