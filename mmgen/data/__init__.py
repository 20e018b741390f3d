"""From raw files to `batches[step]`."""
