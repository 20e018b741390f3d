"""What is trained: pure functions from parameters and a batch to a loss and to predictions."""
