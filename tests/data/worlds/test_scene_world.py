"""`scene_world` is what it says: its draws, its exact optimum and its files."""

import dataclasses
import gzip
import itertools
import json
import math

import numpy as np
import pytest

from mmgen.data.columns import open_dataset
from mmgen.data.streams import TIME_BINS, shift_stream, task_time_information
from mmgen.data.worlds.scene_grammar import SceneWorldSettings, make_grammar, scene_settings
from mmgen.data.worlds.scene_oracle import entropy, token_distributions, true_token_nll
from mmgen.data.worlds.scene_sampling import make_scene_world
from mmgen.data.worlds.scene_scores import find_pairs, item_oracles, optimum, oracle, summarise
from mmgen.data.worlds.scene_world import FIRST_IMAGE_ID, build_scene_world
from mmgen.errors import UserError

MODALITIES = (("text",), ("text", "image"))

TINY = SceneWorldSettings(
    instances=40,
    validation_items=0,
    test_items=40,
    novel_items=20,
    amplitude=1.0,
    role_amplitude=1.0,
    topic_purity=0.8,
    nouns=3,
    adjectives=2,
    verbs=2,
    topics=2,
    max_objects=2,
    typical_adjectives=(0.7,),
    typical_verbs=(0.6,),
    held_out_adjectives=1,
    held_out_verbs=0,
    latent_dim=4,
    feature_dim=8,
)


@pytest.fixture(scope="module")
def world():
    """A world with enough test items for averages; its training split is small."""
    return make_scene_world(
        scene_settings(instances=2_000, validation_items=0, test_items=4_000, novel_items=1_500)
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    root = tmp_path_factory.mktemp("worlds") / "smoke"
    build_scene_world(root, scene_settings("smoke"))
    return open_dataset(root)


def scenarios(world, prior, latent):
    """Everything that an image can be: (weight, (noun, adjective, verb) of every role).

    `latent` is what each of the image's slots shows; None where it is not looked at.
    """
    s, codes = world.settings, world.codes
    kinds = list(itertools.product(range(s.nouns), range(s.adjectives), range(s.verbs)))
    roles = range(len(latent))

    def fit(role, slot, kind):
        if latent[slot] is None:
            return 1.0
        noun, adjective, verb = kind
        mean = s.amplitude * (codes.noun[noun] + codes.adjective[adjective] + codes.verb[verb])
        mean = mean + s.role_amplitude * codes.role[role]
        return math.exp(-0.5 * float(np.sum((latent[slot] - mean) ** 2)))

    fits = {(r, p, k): fit(r, p, k) for r in roles for p in roles for k in kinds}
    for topic, slots, chosen in itertools.product(
        range(s.topics), itertools.permutations(roles), itertools.product(kinds, repeat=len(roles))
    ):
        weight = prior.topic[topic]
        for role, (noun, adjective, verb) in enumerate(chosen):
            weight *= prior.noun[topic, noun]
            weight *= prior.adjective[noun, adjective] * prior.verb[noun, verb]
            weight *= fits[role, slots[role], chosen[role]]
        yield weight, chosen


def sentences(world, kind, length):
    """Every mention of an object that has that many words: (probability, indices of its words)."""
    s, lexicon = world.settings, world.lexicon
    noun, adjective, verb = kind
    for has_adjective, has_verb, is_a in itertools.product((0, 1), repeat=3):
        words = [is_a] + [lexicon.adjective + adjective] * has_adjective
        words += [lexicon.noun + noun] + [lexicon.verb + verb] * has_verb
        probability = (1 - s.the_probability) if is_a else s.the_probability
        probability *= s.adjective_probability if has_adjective else 1 - s.adjective_probability
        probability *= s.verb_probability if has_verb else 1 - s.verb_probability
        if len(words) == length:
            yield probability, words


def brute_force(world, prior, scenes, items, item, *, image=True):
    """p(word) at each masked position, by going through everything that can be the case."""
    where, masked, length = items.image[item], items.mention[item], items.lengths()[item]
    objects = int(scenes.objects[where])
    latent = scenes.latent[where, :objects] if image else [None] * objects
    words, present = (field[item] for field in items.mention_words(1 - items.mention))
    visible = set(words[present].tolist()) - {0, 1}
    table = np.zeros((length, world.lexicon.preposition))
    for weight, chosen in scenarios(world, prior, latent):
        if visible:
            noun, adjective, verb = chosen[1 - masked]
            first = world.lexicon
            if not visible <= {first.noun + noun, first.adjective + adjective, first.verb + verb}:
                continue
        for probability, said in sentences(world, chosen[masked], length):
            table[range(length), said] += weight * probability
    return table / table.sum(1, keepdims=True)


@pytest.mark.parametrize("modalities", MODALITIES)
@pytest.mark.parametrize("split", ["test", "novel"])
def test_posterior_equals_brute_force(split, modalities):
    tiny = make_scene_world(TINY)
    scenes, items = tiny.splits[split]
    prior = tiny.grammar.full if split == "novel" else tiny.grammar.train
    exact = token_distributions(tiny.settings, tiny.lexicon, items, oracle(tiny, split, modalities))
    for item in range(len(items.image)):
        expected = brute_force(tiny, prior, scenes, items, item, image="image" in modalities)
        np.testing.assert_allclose(exact[item, : len(expected)], expected, rtol=1e-9, atol=1e-12)


def test_background_objects_are_summed_out_exactly():
    settings = dataclasses.replace(TINY, max_objects=3, nouns=2, test_items=150)
    tiny = make_scene_world(settings)
    scenes, items = tiny.splits["test"]
    exact = token_distributions(settings, tiny.lexicon, items, oracle(tiny, "test"))
    three = np.flatnonzero(scenes.objects[items.image] == 3)
    alone = [item for item in three if not items.mention_words(1 - items.mention)[1][item].any()]
    assert len(three) > 2
    assert alone
    for item in (*three[:2], *alone[:1]):
        expected = brute_force(tiny, tiny.grammar.train, scenes, items, item)
        np.testing.assert_allclose(exact[item, : len(expected)], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("modalities", MODALITIES)
def test_mean_log_loss_of_the_oracle_is_its_mean_entropy(world, modalities):
    _, items = world.splits["test"]
    posterior = oracle(world, "test", modalities)
    distributions = token_distributions(world.settings, world.lexicon, items, posterior)
    past = np.arange(4) >= items.lengths()[:, None]
    np.testing.assert_allclose(distributions.sum(2), ~past, atol=1e-9)
    surprise = true_token_nll(items, distributions) - entropy(distributions)
    # Items of an image are dependent, images are not.
    per_image = np.bincount(items.image, surprise.sum(1) / items.lengths())
    standard_error = per_image.std() * math.sqrt(len(per_image))
    assert abs(per_image.sum()) < 3 * standard_error


def test_optimum_has_the_documented_values(world):
    assert optimum(world, "test").mean() == pytest.approx(0.477, abs=0.035)
    assert optimum(world, "test", ("text",)).mean() == pytest.approx(2.01, abs=0.08)


@pytest.mark.parametrize(("knob", "easy", "hard"), [
    ("amplitude", 5.0, 2.5), ("role_amplitude", 5.0, 0.0), ("topic_purity", 1.0, 0.0),
])  # fmt: skip
def test_knobs_change_the_difficulty(knob, easy, hard):
    modalities = ("text",) if knob == "topic_purity" else ("text", "image")
    losses = [
        optimum(make_scene_world(scene_settings("smoke", **{knob: value})), "train", modalities)
        for value in (easy, hard)
    ]
    assert losses[0].mean() < losses[1].mean() - 0.1


def test_default_world_has_the_specified_sizes():
    world = make_scene_world(scene_settings())
    images = {split: len(scenes.objects) for split, (scenes, _) in world.splits.items()}
    sizes = {split: len(items.image) for split, (_, items) in world.splits.items()}
    assert sizes == {"train": 20_000, "validation": 1_000, "test": 2_000, "novel": 500}
    assert images["train"] + images["test"] == pytest.approx(2_850, abs=50)
    _, items = world.splits["train"]
    assert items.lengths().mean() == pytest.approx(3.0, abs=0.03)
    task = items.mention_words(items.mention)[0][:, 2]
    assert len(np.unique(task)) == 40
    for seed in range(2):
        order = shift_stream(task, seed=seed, bin_width=31, spread_floor=94)
        assert 0.70 < task_time_information(task[order], TIME_BINS) < 0.77


def test_grammar_holds_out_the_most_typical_pairs():
    grammar = make_grammar(scene_settings())
    kinds = [pair.kind for pair in grammar.held_out]
    assert kinds == ["adjective"] * 8 + ["verb"] * 4
    assert sorted(pair.noun for pair in grammar.held_out) == list(range(1, 13))
    for kind, atom, noun in grammar.held_out:
        full, train = getattr(grammar.full, kind)[noun], getattr(grammar.train, kind)[noun]
        assert full.argmax() == atom
        assert train[atom] == 0
        assert train.sum() == pytest.approx(1)


def objects_with_held_out_pairs(world, split):
    """Number of such objects in every image."""
    scenes, _ = world.splits[split]
    real = np.arange(scenes.noun.shape[1]) < scenes.objects[:, None]
    found = np.zeros_like(real)
    for kind, atom, noun in world.grammar.held_out:
        found |= real & (scenes.noun == noun) & (getattr(scenes, kind) == atom)
    return found.sum(1)


def test_only_novel_images_hold_a_held_out_pair(world):
    assert not objects_with_held_out_pairs(world, "train").any()
    assert not objects_with_held_out_pairs(world, "test").any()
    assert (objects_with_held_out_pairs(world, "novel") == 1).all()


def test_oracles_of_novel_and_seen_pairs_are_in_order(world):
    pairs, marked = find_pairs(world)
    scores = {}
    for split in ("test", "novel"):
        oracles = item_oracles(world, split, marked[split])
        scores[split] = summarise(oracles, marked[split], pairs)
        assert np.array_equal(np.isnan(oracles["composer"]), marked[split].pair < 0)
    for kind in ("adjective", "verb"):
        novel = scores["novel"]
        memoriser, composer = novel[f"{kind}/memoriser"], novel[f"{kind}/composer"]
        assert novel[f"{kind}/true_prior"] < composer < memoriser - 0.2
        assert scores["test"][f"{kind}/memoriser"] < memoriser - 0.2
    assert scores["novel"]["adjective/memoriser"] == pytest.approx(0.95, abs=0.2)
    assert scores["novel"]["adjective/true_prior"] == pytest.approx(0.29, abs=0.06)


def test_pair_columns_name_the_words_of_the_span(built):
    vocabulary, pairs = built.vocabulary, built.info["pairs"]
    assert sum(pair["novel"] for pair in pairs) == 12
    assert all((pair["train_count"] == 0) == pair["novel"] for pair in pairs)
    seen = 0
    for split in ("train", "novel"):
        columns = built.split(split).columns
        for row in np.flatnonzero(columns["pair"] >= 0):
            pair = pairs[columns["pair"][row]]
            assert pair["novel"] == (split == "novel")
            tokens = built.split(split).tokens(row)[columns["pair_tokens"][row]]
            assert vocabulary.tokens_of(tokens) == [pair["atom"], pair["noun"]]
            seen += 1
    assert seen > 50


def test_raw_files_have_coco_shifts_format(built):
    for split in built.info["splits"]:
        path = built.root / "raw" / f"scene_world_{split}.jsonl.gz"
        rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        columns = built.split(split).columns
        assert len(rows) == len(columns["task"])
        for index, row in enumerate(rows):
            first, last = row["mask"]
            words = row["annotation"]["caption"].split()
            tokens = built.split(split).tokens(index)
            assert built.vocabulary.tokens_of(tokens) == words
            assert columns["span"][index].tolist() == [first, last + 1]
            assert row["task"] in words[first : last + 1]
            assert words[first] in ("the", "a")
            assert columns["image_id"][index] == row["annotation"]["image_id"]
            assert columns["caption"][index] == row["annotation"]["id"]


def test_features_hold_what_the_oracle_sees(built):
    settings = scene_settings("smoke")
    world = make_scene_world(settings)
    store = built.features
    store.verify()
    scale = np.linalg.norm(world.codes.projection[0])
    read = store.features.astype(np.float64) @ world.codes.projection.T / scale**2
    latent = np.concatenate(
        [
            scenes.latent[np.arange(3) < scenes.objects[:, None]]
            for scenes, _ in world.splits.values()
        ]
    )
    np.testing.assert_allclose(read, latent, atol=0.01)
    assert np.sqrt(np.mean(np.square(store.features, dtype=np.float64))) == pytest.approx(
        settings.feature_rms, rel=0.03
    )
    gathered = store.gather(np.arange(len(store)), 3)
    mean = gathered.features.sum(1, dtype=np.float64) / store.counts[:, None]
    np.testing.assert_allclose(gathered.image_feature, mean, atol=0.01)


def test_box_sizes_tell_roles_only_where_roles_exist():
    areas = {}
    for role_amplitude in (5.0, 0.0):
        world = make_scene_world(scene_settings("smoke", role_amplitude=role_amplitude))
        scenes, _ = world.splits["train"]
        x1, y1, x2, y2 = np.moveaxis(scenes.boxes, -1, 0)
        real = np.arange(3) < scenes.objects[:, None]
        area = (x2 - x1) * (y2 - y1)
        areas[role_amplitude] = [area[real & (scenes.role == role)].mean() for role in range(3)]
    assert areas[5.0][0] > 1.5 * areas[5.0][1] > 2 * areas[5.0][2]
    assert max(areas[0.0]) < 1.5 * min(areas[0.0])


def test_manifest_states_the_expected_scores(built):
    info = built.info
    assert (info["world"], info["paper_scale"], info["name"]) == (True, False, "scene_world")
    assert info["settings"]["instances"] == 640
    assert info["max_objects"] == 3
    assert info["vocabulary"]["rows"] == 120
    for split, scores in info["oracles"].items():
        columns = built.split(split).columns
        for name in ("optimum", "optimum_text_only"):
            assert scores[name] == pytest.approx(float(columns[name].mean()), abs=1e-5)
        image_ids = np.unique(columns["image_id"])
        assert (image_ids >= FIRST_IMAGE_ID).all()


def test_splits_share_no_image(built):
    ids = [np.unique(built.split(name).columns["image_id"]) for name in built.info["splits"]]
    assert len(np.unique(np.concatenate(ids))) == sum(map(len, ids)) == len(built.features)


def files_of(root):
    return {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_same_settings_give_the_same_bytes(built, tmp_path):
    build_scene_world(tmp_path / "again", scene_settings("smoke"))
    assert files_of(tmp_path / "again") == files_of(built.root)
    build_scene_world(tmp_path / "other", scene_settings("smoke", data_seed=1))
    other = open_dataset(tmp_path / "other")
    assert other.info["fingerprint"] != built.info["fingerprint"]


def test_a_finished_world_is_not_overwritten(built):
    before = files_of(built.root)
    with pytest.raises(UserError, match="built already"):
        build_scene_world(built.root, scene_settings("smoke", data_seed=1))
    assert files_of(built.root) == before


@pytest.mark.parametrize(("settings", "named"), [
    ({"instances": 0}, "instances"),
    ({"amplitude": -1.0}, "amplitude"),
    ({"nouns": 41}, "nouns"),
    ({"held_out_verbs": 0, "held_out_adjectives": 0}, "held_out_adjectives"),
    ({"typical_verbs": (0.9, 0.2)}, "typical_verbs"),
])  # fmt: skip
def test_settings_of_no_world_are_refused(settings, named):
    with pytest.raises(UserError, match=named):
        scene_settings(**settings)


def test_unknown_difficulty_is_refused():
    with pytest.raises(UserError, match="smoke"):
        scene_settings("easy")
