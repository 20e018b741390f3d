"""CoBSAT: learn from demonstrations what an image shall show (Zeng et al., COLM 2024)."""
