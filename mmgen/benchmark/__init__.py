"""Measuring speed: synthetic data of the published size, what is measured, and how."""
