"""Continual-learning algorithms, one short file each, in the spirit of an Optax transformation."""
