"""A data set of your own: one line per masked span, here of invented captions without images.

python -m mmgen.data.build examples.own_dataset:build --out prepared
python -m mmgen.main --config=configs/visCOLL_er10k.py:text_only,dataset=toys,size=small
"""

import json
import pathlib
import tempfile

from mmgen.data.builders.captions import build_captions

CAPTIONS = ("a brown dog runs", "the small dog sleeps", "a red ball rolls", "the big ball falls")


def build(request):
    """Maps a `mmgen.data.builders.request.BuildRequest` to the folder of the data set."""
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/train.jsonl", "w") as lines:
        for image in range(400):
            words = CAPTIONS[image % len(CAPTIONS)].split()
            row = {"image_id": image, "caption": " ".join(words), "span": [0, 3], "task": words[2]}
            lines.write(json.dumps(row) + "\n")
        lines.flush()
        settings = {"name": "toys", "vocabulary": "words", "licence": "CC0"}
        return build_captions(request._replace(raw=pathlib.Path(folder), settings=settings))
