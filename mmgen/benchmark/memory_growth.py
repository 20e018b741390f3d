"""Does a larger replay memory cost anything but its rows' numbers?"""

import numpy as np

from mmgen.benchmark.programs import compile_ahead
from mmgen.benchmark.scales import Scale
from mmgen.core.mesh import make_mesh, put_feed, put_replicated

CAPACITIES = (1_000, 1_000_000)


def memory_growth(scale: Scale) -> dict[str, float]:
    """Bytes of an ER iteration on VLBERT by number of slots, and the ratio of most to fewest."""
    workload, mesh = scale.clocked(), make_mesh()
    seed = put_replicated(np.uint32(0), mesh)
    found: dict[str, float] = {}
    for capacity in CAPACITIES:
        subject = scale.subject(workload, capacity=capacity, buckets=(scale.bucket,))
        feed = put_feed(subject.feed_at(subject.buckets[0]), mesh)
        program = compile_ahead(subject.step(mesh).call, subject.placed_shapes(mesh), feed, seed)
        found[str(capacity)] = program.bytes["peak"]
    first, *_, last = found.values()
    return {**found, "ratio": last / first}
