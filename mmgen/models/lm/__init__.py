"""Language models as pure functions: the Llama family, from the files others publish."""
