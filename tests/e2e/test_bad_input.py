"""What a user gets wrong is answered in one line, with status 2 and no traceback."""

import pytest

from . import running

CONFIG = running.CONFIG


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ["--config"]),
        (("--config=configs/visCOLL_er10.py",), ["visCOLL_er10.py", "did you mean", "er10k"]),
        (("--config=pyproject.toml",), ["pyproject.toml", ".py"]),
        ((f"{CONFIG},smokey",), ["smokey", "did you mean", "smoke"]),
        ((f"{CONFIG},seed=two",), ["seed", "two"]),
        ((CONFIG, "--config.sed=1"), ["sed", "did you mean", "seed"]),
        ((CONFIG, "--config.optimizer.learning_rat=1"), ["did you mean", "learning_rate"]),
        ((CONFIG, "--config.seed=two"), ["seed", "two"]),
        ((CONFIG, "--config.batch_size=1.5"), ["batch_size", "1.5"]),
        ((CONFIG, "--config.optimizer=adam"), ["optimizer"]),
        ((CONFIG, "--workdr=x"), ["workdr", "workdir"]),
        ((CONFIG, "work"), ["work"]),
    ],
)
def test_the_command_line_is_checked_before_anything_heavy(arguments, words):
    result = running.run_main(*arguments)
    assert_one_line(result.returncode, result.stderr, words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--config.dataset.name=coco_shift"], ["coco_shift"]),
        (["--config.batch_size=0"], ["batch_size"]),
        (["--config.mesh.data=3"], ["mesh"]),
    ],
)
def test_wrong_values_are_named(bench, tmp_path, arguments, words):
    workdir = tmp_path / "run"
    run = bench.start(workdir, *arguments)
    assert_one_line(run.status(), run.errors, words)
    assert not (workdir / "checkpoints").exists()


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("profile=releas", ["profile", "did you mean", "release"]),
        ("memory.policy=resevoir", ["memory.policy", "did you mean", "reservoir"]),
        ("memory.policy=none", ["memory"]),
        ("algorithm.name=mirr", ["algorithm.name", "did you mean", "mir"]),
        ("model.factory=nowhere:make", ["model.factory", "nowhere"]),
        ("total.epochs=2", ["epoch"]),
    ],
)
def test_what_no_data_set_makes_right_is_refused_before_one_is_built(
    bench, tmp_path, argument, words
):
    here = tmp_path / "here"
    run = bench.start(here / "run", f"--config.{argument}", f"--config.data_dir={here}/prepared")
    assert_one_line(run.status(), run.errors, words)
    assert [path.name for path in here.iterdir()] == ["run-log"]


def assert_one_line(status: int, errors: str, words: list[str]) -> None:
    lines = [line for line in errors.splitlines() if line.strip()]
    assert status == 2, errors
    assert len(lines) == 1, errors
    assert "Traceback" not in errors
    for word in words:
        assert word.lower() in lines[0].lower(), lines[0]


def test_help_and_list():
    usage = running.run_main("--help")
    assert usage.returncode == 0, usage.stderr
    assert "--config" in usage.stdout
    listing = running.run_main("--list")
    assert listing.returncode == 0, listing.stderr
    assert "configs/visCOLL_er10k.py" in listing.stdout
