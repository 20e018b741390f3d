"""The closed form against XLA's own count of compiled programs without loops."""

import jax
import numpy as np
import pytest
from models.tiny_models import MODELS, QUICK, tiny_batch

from mmgen.core.rng import stream_key
from mmgen.models.flops import Shape, model_flops
from mmgen.tasks.masked_span import make_masked_span_task

TOLERANCE = 0.05
"""XLA counts elementwise work too: at this width 2 to 4 percent."""

SHAPE = Shape(rows=2, text=12, objects=6, masked=3)
WIDTHS = {"hidden": 128, "mlp": 512, "feature_dim": 96, "vocabulary_rows": 600}


# LXMERT's derivative takes as long as the other three and consists of the same products.
@pytest.mark.parametrize(
    ("name", "part"), [("vlbert", "forward"), ("vlbert", "train"), ("lxmert", "forward")]
)
def test_flops_are_those_of_the_unrolled_program(name, part):
    model = MODELS[name](**WIDTHS, scan_unroll=3)
    batch = tiny_batch(rows=SHAPE.rows, text=SHAPE.text, objects=SHAPE.objects)
    for field in ("features", "image_feature"):
        shape = (*batch[field].shape[:-1], WIDTHS["feature_dim"])
        batch[field] = np.zeros(shape, np.float32)
    task = make_masked_span_task(model)
    params = jax.eval_shape(task.init, stream_key(0, "test"), batch)

    def loss(params):
        return task.loss(params, batch, None)[0][0]

    function = loss if part == "forward" else jax.grad(loss)
    expected = getattr(model_flops(model, SHAPE), part)
    flops = jax.jit(function).lower(params).compile(QUICK).cost_analysis()["flops"]
    assert expected == pytest.approx(flops, rel=TOLERANCE)
    assert expected <= flops
