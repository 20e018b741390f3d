"""What every run needs, whatever it trains: state, keys, mesh, checkpoints, the loop, writers."""
