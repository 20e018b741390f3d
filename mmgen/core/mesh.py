"""Devices as a mesh, and which array lies where on it; the only module that makes meshes.

Axes: `data` and `fsdp` split the examples of a batch; `fsdp` and `tensor` split parameters.
Everything else (step, keys, memory, slots) is replicated: every device holds it whole.
"""

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Int

from mmgen.algorithms.base import Feed
from mmgen.errors import UserError

PyTree = Any
Rules = Sequence[tuple[str, tuple[str | None, ...]]]

BATCH_AXES = ("data", "fsdp")

DEFAULT_RULES: Rules = (
    (r"embedding$", ("tensor", "fsdp")),
    (r"(out|output|down)[^/]*/kernel$", ("tensor", "fsdp")),
    (r"kernel$", ("fsdp", "tensor")),
)
"""Regex on the "/"-joined path -> mesh axes of the *last* dimensions; the first match counts.

Last, because layers stacked by `nn.scan` have their layer axis in front. Optimizer moments end in
the path of their parameter and are split alike.
"""


def make_mesh(data: int = 0, fsdp: int = 1, tensor: int = 1) -> Mesh:
    """A mesh of axes (data, fsdp, tensor) over the devices; `data=0` takes all that are left.

    A mesh smaller than the machine uses its first devices; over several processes it must use all.

    Raises:
      UserError: the sizes do not fit the number of devices.
    """
    devices = jax.devices()
    count = len(devices)
    if fsdp < 1 or tensor < 1 or data < 0:
        raise UserError(f"mesh is {data} x {fsdp} x {tensor}; fsdp and tensor must be at least 1.")
    if data == 0:
        data = max(count // (fsdp * tensor), 1)
    wanted = data * fsdp * tensor
    if wanted > count or (wanted < count and (jax.process_count() > 1 or count % wanted)):
        raise UserError(
            f"mesh.data x mesh.fsdp x mesh.tensor is {data} x {fsdp} x {tensor} = {wanted}, but "
            f"there are {count} devices; choose sizes whose product is {count}."
        )
    # Auto: the default since jax 0.9, Explicit, makes every sharded addition a type error.
    return jax.make_mesh(
        (data, fsdp, tensor),
        ("data", "fsdp", "tensor"),
        axis_types=(AxisType.Auto,) * 3,
        devices=devices[:wanted],
    )


def replicated(mesh: Mesh) -> NamedSharding:
    """Every device holds the array whole."""
    return NamedSharding(mesh, PartitionSpec())


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """The leading (example) axis is split over `data` and `fsdp`."""
    return NamedSharding(mesh, PartitionSpec(BATCH_AXES))


def batch_shards(mesh: Mesh) -> int:
    """Into how many parts a batch is split."""
    return math.prod(mesh.shape[axis] for axis in BATCH_AXES)


def param_shardings(shapes: PyTree, mesh: Mesh, rules: Rules = DEFAULT_RULES) -> PyTree:
    """A `NamedSharding` for every leaf of `shapes` (arrays or `ShapeDtypeStruct`s).

    A dimension that its axis does not divide is not split.
    """

    def place(path, leaf) -> NamedSharding:
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        return NamedSharding(mesh, _spec(name, leaf.shape, mesh, rules))

    return jax.tree_util.tree_map_with_path(place, shapes)


def placed_shapes(shapes: PyTree, shardings: PyTree) -> PyTree:
    """`ShapeDtypeStruct`s that also say where the arrays lie: to compile for, or to restore to."""
    return jax.tree.map(
        lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        shapes,
        shardings,
    )


def _spec(name: str, shape: tuple[int, ...], mesh: Mesh, rules: Rules) -> PartitionSpec:
    axes = next((axes for pattern, axes in rules if re.search(pattern, name)), ())
    axes = axes[max(len(axes) - len(shape), 0) :]
    padded = (None,) * (len(shape) - len(axes)) + tuple(axes)
    fitting = [
        axis if axis is not None and mesh.shape[axis] > 1 and size % mesh.shape[axis] == 0 else None
        for axis, size in zip(padded, shape, strict=True)
    ]
    while fitting and fitting[-1] is None:
        fitting.pop()
    return PartitionSpec(*fitting)


def born_sharded(
    init_fn: Callable[..., PyTree], mesh: Mesh, rules: Rules = DEFAULT_RULES
) -> Callable[..., PyTree]:
    """`init_fn` compiled so that each device makes only its own part of the result.

    Arguments are host values, the same on every process; the result consists of global arrays.
    """

    def born(*args: Any) -> PyTree:
        shardings = param_shardings(jax.eval_shape(init_fn, *args), mesh, rules)
        return jax.jit(init_fn, out_shardings=shardings)(*args)

    return born


def local_rows(size: int, mesh: Mesh) -> Int[np.ndarray, " rows"]:
    """Rows of a global batch of `size` examples that this process has to read, ascending.

    All of them if the batch cannot be split evenly over the mesh: it is then replicated.
    """
    if size % batch_shards(mesh):
        return np.arange(size)
    parts = batch_sharding(mesh).addressable_devices_indices_map((size,)).values()
    return np.unique(np.concatenate([np.arange(size)[part] for part in parts]))


def put_replicated(value: Any, mesh: Mesh) -> jax.Array:
    """A host value, the same on every process, as one global replicated array."""
    array = np.asarray(value)
    with jax.transfer_guard_host_to_device("allow"):
        return jax.make_array_from_callback(array.shape, replicated(mesh), lambda part: array[part])


def put_feed(feed: Feed, mesh: Mesh, rows: Sequence[int] | None = None) -> Feed:
    """A feed of numpy arrays as global arrays on the mesh.

    Batches are split over `data` and `fsdp`; slots and side information are replicated, unless
    they lie on the mesh already. A batch that cannot be split evenly is replicated instead:
    correct, only slower.

    Args:
      feed: arrays of this process: of each batch its `local_rows`, or the whole global batch; of
        slots and side information always all.
      rows: sizes of the global stream batch and of each replay batch. Needed by several processes
        only, and there only if the feed has no slots to tell the sizes.

    Raises:
      ValueError: a batch has neither its local rows nor all rows.
    """
    sizes = _global_sizes(feed, rows)
    return Feed(
        stream=_put_batch(feed.stream, sizes[0], mesh),
        replay=tuple(
            _put_batch(batch, size, mesh)
            for batch, size in zip(feed.replay, sizes[1:], strict=True)
        ),
        insert_slot=_put_whole(feed.insert_slot, mesh),
        replay_slot=_put_whole(feed.replay_slot, mesh),
        side=_put_whole(feed.side, mesh),
    )


def _global_sizes(feed: Feed, rows: Sequence[int] | None) -> list[int]:
    if rows is not None:
        return list(rows)
    held = [len(feed.stream["ids"]), *(len(batch["ids"]) for batch in feed.replay)]
    if jax.process_count() == 1:
        return held
    slots = [feed.insert_slot, *(feed.replay_slot or [()] * len(feed.replay))]
    if any(isinstance(slot, tuple) for slot in slots):
        raise ValueError("several processes: put_feed needs `rows` for a feed without slots")
    return [len(slot) for slot in slots]


def _put_batch(batch: dict[str, Any], size: int, mesh: Mesh) -> dict[str, Any]:
    sharding = replicated(mesh) if size % batch_shards(mesh) else batch_sharding(mesh)
    if jax.process_count() == 1:
        return jax.device_put(batch, sharding)
    mine = local_rows(size, mesh)

    def put(leaf: np.ndarray) -> jax.Array:
        if len(leaf) not in (size, len(mine)):
            raise ValueError(
                f"a batch of {size} has {len(leaf)} rows here; expected {len(mine)} or {size}"
            )
        held = np.arange(size) if len(leaf) == size else mine

        def part(index: Any) -> np.ndarray:
            return leaf[np.searchsorted(held, np.arange(size)[index[0]])][(slice(None), *index[1:])]

        # This *is* the explicit transfer, which the loop's guard cannot see in here.
        with jax.transfer_guard_host_to_device("allow"):
            return jax.make_array_from_callback((size, *leaf.shape[1:]), sharding, part)

    return jax.tree.map(put, batch)


def _put_whole(tree: PyTree, mesh: Mesh) -> PyTree:
    """Replicated, all but what lies on the mesh already, which stays split as it is."""
    if all(is_on(leaf, mesh) for leaf in jax.tree.leaves(tree)):
        return tree
    if jax.process_count() == 1:
        return jax.device_put(tree, replicated(mesh))
    return jax.tree.map(lambda leaf: put_replicated(leaf, mesh), tree)


def is_on(leaf: Any, mesh: Mesh) -> bool:
    """Does an array lie on the devices of the mesh?"""
    sharding = getattr(leaf, "sharding", None)
    return isinstance(sharding, NamedSharding) and sharding.mesh == mesh
