"""What is read is what was written, or it is refused."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mmgen.core import digest
from mmgen.core.checkpoint import Checkpointer, NotFiniteError
from mmgen.core.digest import tree_marks
from mmgen.core.state import TrainState
from mmgen.errors import UserError


def state(**changes):
    """A small state with every kind of array."""
    params = {"dense": {"kernel": jnp.arange(6.0).reshape(2, 3), "empty": {}}, "half": jnp.ones(3)}
    whole = TrainState(
        step=jnp.int32(4),
        params={**params, "half": params["half"].astype(jnp.bfloat16)},
        opt_state=((), {"mask": jnp.array([True, False])}),
        memory=jnp.arange(5, dtype=jnp.int32),
    )
    return whole.replace(**changes)


def abstract(tree):
    """Shapes, dtypes and places of a tree."""
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), tree)


@pytest.fixture
def checkpoints(tmp_path):
    """A folder of checkpoints."""
    opened = Checkpointer(tmp_path / "checkpoints")
    yield opened
    opened.close()


def test_everything_comes_back(checkpoints):
    checkpoints.save(4, state(), {"evaluated": 3, "x": 0.1 + 0.2}, {"devices": 1})
    restored = checkpoints.restore_latest(abstract(state()))
    assert restored.step == 4
    assert restored.control == {"evaluated": 3, "x": 0.1 + 0.2}
    assert restored.facts == {"devices": 1}
    assert jax.tree.structure(restored.state) == jax.tree.structure(state())
    jax.tree.map(np.testing.assert_array_equal, restored.state, state())
    assert checkpoints.restore(4, abstract(state())).step == 4


def test_nothing_there_is_none(checkpoints):
    assert checkpoints.restore_latest(abstract(state())) is None


def test_the_state_may_be_overwritten_while_it_is_being_saved(checkpoints):
    bump = jax.jit(lambda tree: jax.tree.map(lambda x: x + 1, tree), donate_argnums=0)
    running = state(opt_state=(), params={"w": jnp.zeros((500, 500))})
    expected = abstract(running)
    checkpoints.save(1, running, {}, {})
    for _ in range(20):
        running = bump(running)
    jax.block_until_ready(running)
    assert np.all(checkpoints.restore_latest(expected).state.params["w"] == 0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"memory": jnp.arange(5.0)}, r"memory is int32\[5\] there and float32\[5\] here"),
        ({"memory": jnp.arange(6)}, r"memory is int32\[5\] there and int32\[6\] here"),
        ({"memory": ()}, r"memory is int32\[5\] there and absent here"),
        ({"extras": jnp.zeros(2)}, r"extras is absent there and float32\[2\] here"),
    ],
)
def test_another_model_is_refused_naming_the_array(checkpoints, changes, words):
    checkpoints.save(4, state(), {}, {})
    with pytest.raises(UserError, match=f"of another model: {words}"):
        checkpoints.restore_latest(abstract(state(**changes)))


def test_a_step_is_saved_once(checkpoints):
    checkpoints.save(4, state(), {}, {})
    with pytest.raises(ValueError, match="step 4 was not saved"):
        checkpoints.save(4, state(), {}, {})
    with pytest.raises(UserError, match="no checkpoint of step 3; there are: 4"):
        checkpoints.restore(3, abstract(state()))


def test_what_is_not_finite_is_not_saved(checkpoints):
    bad = state(params={"w": jnp.array([1.0, jnp.inf])})
    with pytest.raises(NotFiniteError, match="params/w"):
        checkpoints.save(4, bad, {}, {})
    # Elsewhere infinity may have a meaning, like the best loss so far.
    checkpoints.save(5, state(extras=jnp.array(jnp.inf)), {}, {})
    assert checkpoints.steps == [5]


def test_a_checkpoint_that_would_not_fit_is_not_begun(checkpoints, tmp_path, monkeypatch):
    checkpoints.save(3, state(), {}, {})
    checkpoints.wait()
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(UserError, match=f"the disk is full: {tmp_path}/checkpoints could not be"):
        checkpoints.save(4, state(), {}, {})
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["3"]
    monkeypatch.undo()
    checkpoints.save(4, state(), {}, {})
    assert checkpoints.steps == [3, 4]


def test_a_flipped_bit_that_orbax_does_not_notice_is_noticed(checkpoints, tmp_path, capsys):
    noise = np.random.default_rng(0).normal(size=(100, 100)).astype(np.float32)
    large = state(params={"w": jnp.asarray(noise)})
    for step in (1, 2):
        checkpoints.save(step, large, {}, {})
    checkpoints.wait()
    files = [p for p in (tmp_path / "checkpoints" / "2").rglob("*") if p.is_file()]
    largest = max(files, key=lambda p: p.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.write_bytes(data)
    assert checkpoints.restore_latest(abstract(large)).step == 1
    assert "the checksum of params/w is wrong" in capsys.readouterr().err
    assert checkpoints.steps == [1]


@pytest.fixture(params=["host", "device"])
def place(request, monkeypatch):
    """Checksums are computed there."""
    if request.param == "device":
        monkeypatch.setattr(digest, "SMALL", -1)


def test_a_checksum_notices_any_bit_and_any_exchange(place):
    base = np.arange(12, dtype=np.float32).reshape(3, 4)

    def checksum(array):
        return tree_marks({"a": jnp.asarray(array)})["a"].checksum

    seen = {checksum(base), checksum(base.reshape(4, 3)), checksum(base[::-1])}
    for index in range(12):
        for bit in (0, 13, 31):
            changed = base.copy()
            changed.view(np.uint32).flat[index] ^= np.uint32(1 << bit)
            seen.add(checksum(changed))
    two_signs = base.copy()
    two_signs[0] *= [1, -1, -1, 1]
    seen.add(checksum(two_signs))
    # The reshaped array has the same bits in the same order: the shape is compared apart.
    assert len(seen) == 2 + 12 * 3 + 1


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "bfloat16", "float16"])
def test_a_checksum_knows_every_dtype(place, dtype):
    marks = tree_marks({"a": jnp.array([[0, 1], [1, 0]], dtype), "s": jnp.ones((), dtype)})
    assert marks["a"].dtype == dtype
    assert marks["a"].finite
    other = tree_marks({"a": jnp.array([[1, 0], [1, 0]], dtype)})
    assert marks["a"].checksum != other["a"].checksum


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 4, 5)])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "bfloat16", "float32"])
def test_host_and_device_agree_on_every_checksum(monkeypatch, dtype, shape):
    rng = np.random.default_rng(0)
    values = jnp.asarray(rng.integers(0, 2, shape) if dtype == "bool" else 50 * rng.random(shape))
    tree = {"a": values.astype(dtype), "broken": jnp.full(shape, jnp.nan)}
    on_host = tree_marks(tree)
    monkeypatch.setattr(digest, "SMALL", -1)
    assert tree_marks(tree) == on_host
    assert on_host["broken"].finite == (0 in shape)
