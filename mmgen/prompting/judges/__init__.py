"""Judges of CoBSAT: a multimodal model, CLIP, the pixels of `shape_world`; and judges of judges."""
