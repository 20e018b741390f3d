"""Facts of data sets as their manifests hold them, as far as `resolve` asks for them."""

WORLD = {
    "name": "scene_world",
    "fingerprint": "f" * 64,
    "world": True,
    "paper_scale": False,
    "paper_size": 639_592,
    "vocabulary": {"rows": 120},
    "splits": {"train": {"examples": 20_000}},
}
DEVTRAIN = {
    **WORLD,
    "name": "coco_shift_devtrain",
    "world": False,
    "vocabulary": {"rows": 30_600},
    "splits": {"train": {"examples": 25_000}},
}
COCO = {
    **DEVTRAIN,
    "name": "coco_shift",
    "paper_scale": True,
    "splits": {"train": {"examples": 638_903}},
}
