"""Whole runs on tiny random weights: the loss falls, a kill changes no bit, adapters serve."""

import json
import multiprocessing
import os
import signal

import jax
import numpy as np
import pytest

from mmgen.core.checkpoint import Checkpointer
from mmgen.core.mesh import make_mesh
from mmgen.core.workdir import Workdir
from mmgen.errors import UserError
from mmgen.models.lm.lora import load_adapters
from mmgen.prompting.backends import open_backend
from mmgen.prompting.finetune import describe, rescore, run
from mmgen.prompting.finetuning.examples import make_examples, open_data
from mmgen.prompting.finetuning.packing import PackedFeeds
from mmgen.prompting.finetuning.pupil import PictureTable, make_encoder, open_pupil
from mmgen.settings.command_line import load_config
from mmgen.settings.resolve_finetune import resolve

from .tiny_pupils import tiny_config, write_llava, write_text_model, write_theme

CONTEXT = multiprocessing.get_context("forkserver")
ADAPTER = "adapter_model.safetensors"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("finetune")
    write_theme(root / "theme")
    write_text_model(root / "text")
    write_llava(root / "llava")
    return root


@pytest.fixture(scope="module")
def config(folder):
    return tiny_config(folder, folder / "text", "caption")


@pytest.fixture(scope="module")
def unbroken(folder, config):
    assert run(config, str(folder / "unbroken"), "the command") == 0
    return Workdir(folder / "unbroken")


def losses(workdir):
    lines = map(json.loads, workdir.file("metrics.jsonl").read_text().splitlines())
    return [line["train/loss"] for line in lines if "train/loss" in line]


def test_training_and_heldout_losses_fall(unbroken):
    train = losses(unbroken)
    assert len(train) == 8
    assert np.mean(train[-3:]) < np.mean(train[:2]) - 0.5
    metrics = unbroken.read_json("summary.json")["metrics"]
    assert metrics["heldout/nll"] < metrics["untuned/nll"] - 0.2
    assert metrics["heldout/copy_nearest_accuracy"] == 0
    assert metrics["gain_over_substitute"] == metrics["heldout/accuracy"] - 1


def test_checkpoints_hold_adapters_and_optimizer_alone(unbroken):
    checkpoints = Checkpointer(unbroken.file("checkpoints"))
    about = unbroken.file(f"checkpoints/{checkpoints.steps[-1]}/about/metadata")
    arrays = json.loads(about.read_text())["arrays"]
    checkpoints.close()
    assert {path.split("/")[0] for path in arrays} == {"step", "params", "opt_state"}
    # Two halves for each of four projections, and nothing of the model.
    assert sum(path.startswith("params/") for path in arrays) == 8


def killed_run(folder, step):
    """Dies while the batch of `step` is read ahead."""
    jax.config.update("jax_platforms", "cpu")
    read = PackedFeeds.__getitem__

    def deadly(feeds, number):
        if number == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return read(feeds, number)

    PackedFeeds.__getitem__ = deadly
    run(tiny_config(folder, folder / "text", "caption"), str(folder / "killed"))


def test_a_killed_run_ends_in_the_same_bits(folder, config, unbroken):
    process = CONTEXT.Process(target=killed_run, args=(folder, 7))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    killed = Workdir(folder / "killed")
    assert not killed.is_done
    checkpoints = Checkpointer(killed.file("checkpoints"))
    assert checkpoints.steps
    checkpoints.close()
    assert run(config, str(killed.root)) == 0
    for name in (f"adapter/{ADAPTER}", "evals/heldout/0.jsonl", "evals/heldout/8.jsonl"):
        assert killed.file(name).read_bytes() == unbroken.file(name).read_bytes(), name
    assert losses(killed) == losses(unbroken)


def test_the_adapters_can_be_asked(folder, config, unbroken):
    spec, adapter = f"jax:{folder / 'text'}", str(unbroken.file("adapter"))
    tuned = open_backend(spec, adapter=adapter, batch_size=3)
    plain = open_backend(spec, batch_size=3)
    assert tuned.identity != plain.identity
    resolved = resolve(config)
    heldout = make_examples(open_data(resolved), resolved).heldout
    requests = [example.request for example in heldout]
    answers = [dict(backend.answer(requests)) for backend in (tuned, plain)]
    for place, step in enumerate((8, 0)):
        lines = unbroken.file(f"evals/heldout/{step}.jsonl").read_text().splitlines()
        written = [json.loads(line)["prediction"] for line in lines]
        assert [answers[place][i].text for i in range(len(requests))] == written


def test_a_finished_run_is_printed_and_rescored_from_its_records(config, unbroken, capsys):
    before = unbroken.read_json("summary.json")
    assert run(config, str(unbroken.root)) == 0
    assert "This run is finished" in capsys.readouterr().out
    assert rescore(unbroken, from_checkpoint=False) == before["metrics"]
    with pytest.raises(UserError, match="start the run's command again"):
        rescore(unbroken, from_checkpoint=True)


def test_a_run_of_other_settings_is_refused(config, unbroken):
    other = config.copy_and_resolve_references()
    other.lora.rank = 2
    with pytest.raises(UserError, match=r"lora\.rank"):
        run(other, str(unbroken.root))


def test_images_are_learned_through_the_frozen_tower(folder):
    config = tiny_config(folder, folder / "llava", "default")
    config.finetune.epochs = 1
    config.evaluation.update({"count": 1, "limit": 2, "max_tokens": 2})
    workdir = Workdir(folder / "images")
    assert run(config, str(workdir.root)) == 0
    train = losses(workdir)
    assert train[-1] < train[0] - 0.3
    assert b"model.language_model.layers.0" in workdir.file(f"adapter/{ADAPTER}").read_bytes()
    pupil = open_pupil(config.model.spec, make_mesh(data=1), "float32")
    load_adapters(folder / "images" / "adapter", pupil.language.config)


@pytest.mark.parametrize(
    ("model", "prompt"), [("text", "caption"), ("llava", "default"), ("llava", "caption")]
)
def test_an_example_is_the_prompt_the_answer_and_its_end(folder, model, prompt):
    config = resolve(tiny_config(folder, folder / model, prompt))
    example = make_examples(open_data(config), config).train[0]
    pupil = open_pupil(config.model.spec, make_mesh(data=1), "float32")
    table = PictureTable()
    encoded = make_encoder(pupil, table)(example)
    tokenizer = pupil.language.tokenizer
    learned = encoded.tokens[encoded.start :]
    assert tokenizer.decode(learned).strip() == example.answer
    assert learned[-1] in pupil.language.config.eos
    assert len(table.pictures) == (prompt == "default")
    assert (encoded.sources is None) == (prompt == "caption")
    if prompt == "default":
        sources = np.array(encoded.sources)
        assert sources[sources >= 0].tolist() == list(range(9))
        assert (sources[encoded.start :] < 0).all()


def test_leave_one_out_learns_the_other_themes(folder):
    config = tiny_config(folder, folder / "text", "caption")
    config.finetune.split = "leave_one_out"
    with pytest.raises(UserError, match="theme names the theme"):
        resolve(config)
    config.finetune.theme = "style"
    with pytest.raises(UserError, match="style"):
        make_examples(open_data(config), resolve(config))


def test_the_config_file_has_the_papers_settings():
    config = resolve(load_config("configs/cobsat_lora.py:shots=4"))
    assert (config.lora.rank, config.optimizer.weight_decay) == (64, 0.1)
    assert (config.optimizer.warm_up, config.finetune.epochs) == (0.01, 5)
    assert config.finetune.prompt == "caption"
    images = resolve(load_config("configs/cobsat_lora.py:model=jax:/llava,tasks=color+style"))
    assert images.finetune.prompt == "default"
    assert images.finetune.tasks == ("color", "style")


def test_describe_opens_no_model(folder, config):
    described = config.copy_and_resolve_references()
    described.model.spec = "jax:/nowhere"
    text = describe(described)
    assert "updates: 8" in text
    assert "[answer] a " in text


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("finetune.prompt", "cot", r"finetune\.prompt"),
        ("finetune.prompt", "default", "reads no images; give prompt=caption"),
        ("finetune.epochs", 0, r"finetune\.epochs"),
        ("optimizer.warm_up", 1.5, r"optimizer\.warm_up"),
        ("lora.targets", ("c_attn",), r"lora\.targets"),
        ("model.spec", "server:http://here#m", "fine-tuned in JAX"),
        ("finetune.accumulation", 100, "fill no update"),
        ("finetune.max_length", 40, r"finetune\.max_length"),
    ],
)
def test_wrong_settings_are_one_sentence(folder, config, path, value, message):
    wrong = config.copy_and_resolve_references()
    group, key = path.split(".")
    wrong[group][key] = value
    with pytest.raises(UserError, match=message):
        run(wrong, str(folder / "wrong" / path))
