"""Workers: environments that are stepped in processes of their own, and who looks after them."""
