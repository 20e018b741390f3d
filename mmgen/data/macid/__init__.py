"""MACID: groups of four action descriptions, one of which is of another kind of action."""
