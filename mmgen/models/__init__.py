"""Encoders of captions with image regions, as pure linen modules."""
