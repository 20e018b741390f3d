"""What imports without what: kernels without data and logging libraries, all without extras."""

import pathlib
import subprocess
import sys

import pytest

import mmgen

PACKAGE = pathlib.Path(mmgen.__file__).parent
OPTIONAL = (
    "gguf",
    "h5py",
    "jinja2",
    "lemminflect",
    "matplotlib",
    "sklearn",
    "spacy",
    "tensorflow",
    "torch",
)
"""Never in the base install: imported where they are used, if at all."""
SERVICES = ("array_record", "clu", "grain", "ml_collections", "tensorboard", "tensorflow_datasets")
"""Data and logging libraries, which the benchmark and a device-resident run do without."""

PROGRAM = """
import importlib, sys
blocked, modules, prelude = sys.argv[1].split(","), sys.argv[2].split(","), sys.argv[3]
for name in blocked:
    sys.modules[name] = None  # an import of it or of what is inside raises ModuleNotFoundError
try:
    importlib.import_module(blocked[0])
except ModuleNotFoundError:
    pass
else:
    sys.exit("the blocker blocks nothing")
exec(prelude)
failed = []
for name in modules:
    try:
        importlib.import_module(name)
    except ImportError as error:
        failed.append(f"{name}: {error}")
sys.exit("\\n".join(failed) or None)
"""


def modules(*patterns: str) -> list[str]:
    """Dotted names of the modules whose path inside the package matches a pattern."""
    paths = sorted({path for pattern in patterns for path in PACKAGE.glob(pattern)})
    names = (("mmgen", *path.relative_to(PACKAGE).with_suffix("").parts) for path in paths)
    return [".".join(name).removesuffix(".__init__") for name in names if "__main__" not in name]


def assert_importable(names: list[str], blocked: tuple[str, ...], prelude: str = "") -> None:
    command = [sys.executable, "-c", PROGRAM, ",".join(blocked), ",".join(names), prelude]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def kernels() -> list[str]:
    """What a step is made of, and what decides which rows it reads."""
    return modules(
        "core/mesh.py",
        "core/optim.py",
        "core/resident.py",
        "core/rng.py",
        "core/state.py",
        "data/schema.py",
        "data/streams.py",
        "data/tables.py",
        "algorithms/**/*.py",
        "memory/**/*.py",
        "models/**/*.py",
        "tasks/**/*.py",
        "bench.py",
        "benchmark/**/*.py",
    )


def test_kernels_need_no_data_or_logging_library(kernels):
    assert {"mmgen.core.mesh", "mmgen.data.streams", "mmgen.memory.plan"} <= set(kernels)
    assert_importable(kernels, (*SERVICES, *OPTIONAL, "transformers"))


def test_every_module_imports_with_the_base_install():
    # Two modules are there to be imported behind this shim only, and say so.
    shim = "from mmgen.core.clu_shim import metric_writers; metric_writers()"
    assert_importable(modules("**/*.py"), OPTIONAL, shim)
