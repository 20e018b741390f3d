"""CompAct: training, evaluating and scoring the prediction of the next utterance, verb or noun."""
