"""An algorithm of your own: trains on what the memory holds and never on the stream itself.

python -m mmgen.main --config=configs/visCOLL_er10k.py \\
    --config.algorithm.name=examples.own_algorithm:make
"""

import jax

from mmgen.algorithms.base import Algorithm, apply_update, loss_and_grad, next_state, no_extras


def make(task, optimizer, memory, replay_size=32):
    """Named arguments are keys of config.algorithm."""

    def step(state, feed, key):
        stream_key, replay_key = jax.random.split(key)
        # For the memory and the log alone: the stream's gradient is not used.
        stream = loss_and_grad(task, state.params, feed.stream, stream_key)
        out = loss_and_grad(task, state.params, feed.replay[0], replay_key)
        new = apply_update(optimizer, state.params, state.opt_state, out.grads, out.targets)
        replayed = tuple((slots, out.aux["nll"]) for slots in feed.replay_slot)
        state = next_state(state, memory, feed, key, *new, stream, replayed)
        return state, {"loss": stream.loss, "loss_replay": out.loss}

    return Algorithm(draws=(replay_size,), init=no_extras, step=step)
