"""Fine-tuning of a prompted model on a benchmark's own training prompts."""
