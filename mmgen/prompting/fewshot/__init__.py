"""CompAct by few-shot prompting: the next narration, from examples (A.4 and E.3 of the paper)."""
