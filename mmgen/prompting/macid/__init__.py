"""MACID: find the intruder among four descriptions of actions."""
