"""The install: pinned, hashed, free of addresses; and the repository: free of this machine."""

import importlib.metadata
import pathlib
import re
import subprocess
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FILES = ("requirements.txt", "requirements-test.txt", "requirements-weights.txt")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def entries(file: str) -> list[tuple[Requirement, list[str]]]:
    """(requirement, its hashes) of each entry of a requirements file."""
    text = (ROOT / file).read_text().replace("\\\n", " ")
    lines = [line.split(" --hash", 1) for line in text.splitlines() if line.strip()]
    return [(Requirement(line[0]), HASH.findall(" --hash".join(["", *line[1:]]))) for line in lines]


def pins(file: str) -> dict[str, str]:
    """Package -> version, of the entries that apply to this Python and platform."""
    here = [entry for entry, _ in entries(file) if not entry.marker or entry.marker.evaluate()]
    return {
        canonicalize_name(entry.name): str(entry.specifier).removeprefix("==") for entry in here
    }


def declared(*extras: str) -> list[Requirement]:
    optional = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in optional[extra])]
    return [Requirement(line) for line in lines]


def tracked_files() -> list[pathlib.Path]:
    """Files that git knows here, or skips where this is no clone."""
    try:
        result = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no git clone")
    paths = [ROOT / name for name in result.stdout.split("\0") if name]
    return [path for path in paths if path.is_file()]


@pytest.mark.parametrize("file", FILES)
def test_every_requirement_is_pinned_and_hashed(file):
    assert entries(file)
    for requirement, hashes in entries(file):
        assert re.fullmatch(r"==[0-9][0-9a-z.+!]*", str(requirement.specifier)), requirement
        assert hashes, requirement
        assert requirement.url is None


@pytest.mark.parametrize("file", FILES)
def test_requirements_name_no_address_and_no_index(file):
    text = HASH.sub("", (ROOT / file).read_text())
    assert not re.search(r"://|@|file:|--(?!hash)", text)


def test_test_requirements_hold_the_base_ones_at_the_same_versions():
    base, test = pins("requirements.txt"), pins("requirements-test.txt")
    assert {name: test.get(name) for name in base} == base


def test_base_install_has_no_torch_no_tensorflow_and_no_accelerator_packages():
    names = {canonicalize_name(r.name) for file in FILES for r, _ in entries(file)}
    banned = re.compile(r"(torch|tensorflow|nvidia|cuda|jax-cuda|triton)")
    allowed = {"tensorflow-datasets", "tensorflow-metadata"}
    assert {name for name in names if banned.match(name)} <= allowed


@pytest.mark.parametrize(
    ("file", "extras"), [("requirements.txt", ()), ("requirements-test.txt", ("test",))]
)
def test_declared_ranges_admit_the_pins(file, extras):
    pinned = pins(file)
    for requirement in declared(*extras):
        if requirement.name != "mmgen":
            version = pinned[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), (requirement, version)


def test_ranges_are_open_to_the_next_jax():
    specifier = {r.name: r.specifier for r in declared()}
    assert specifier["jax"].contains("0.11.0")
    assert specifier["flax"].contains("0.13.0")
    assert specifier["orbax-checkpoint"].contains("0.13.0")


def test_pins_are_complete():
    """Nothing is resolved when the pins are installed, so what they need must be among them."""
    pinned = pins("requirements-test.txt")
    queue = [(r.name, frozenset(r.extras)) for r in declared("test", "figures", "h5", "tagging")]
    seen = set()
    while queue:
        name, extras = item = queue.pop()
        if item in seen or name == "mmgen":
            continue
        seen.add(item)
        assert canonicalize_name(name) in pinned, name
        for line in importlib.metadata.requires(name) or []:
            needed = Requirement(line)
            environments = [{"extra": extra} for extra in ("", *extras)]
            if not needed.marker or any(needed.marker.evaluate(e) for e in environments):
                queue.append((needed.name, frozenset(needed.extras)))
    assert len(seen) > 50


def test_files_that_are_no_code_are_packaged():
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
        "package-data"
    ]
    declared = {
        path
        for name, patterns in data.items()
        for pattern in patterns
        for path in ROOT.joinpath(*name.split(".")).glob(pattern)
    }
    package = [path for path in tracked_files() if path.is_relative_to(ROOT / "mmgen")]
    assert {path for path in package if path.suffix != ".py"} == declared


def test_nothing_committed_names_a_machine_or_an_index():
    folders = ["work", "root", "home", "Users", "opt/wheels"]
    machine = [rf"(?<![\w.$}}/-])/{folder}/[\w.]" for folder in folders]
    hosts = [r"\bpypi\." + "org", "python" + "hosted", r"\bcrates\." + "io", "npmjs" + r"\."]
    pattern = re.compile("|".join(machine + hosts).encode())
    found = [
        f"{path.relative_to(ROOT)}: {match[0].decode()}"
        for path in tracked_files()
        for match in pattern.finditer(path.read_bytes())
    ]
    assert found == []


def test_no_bulk_data_is_committed():
    large = {str(p.relative_to(ROOT)) for p in tracked_files() if p.stat().st_size > 400_000}
    assert large == set()
