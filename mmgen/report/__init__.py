"""Tables and figures from the files of finished runs, and from nothing else."""
