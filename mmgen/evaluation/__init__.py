"""When and how a model is evaluated, the records it leaves, and the scores read from them."""
