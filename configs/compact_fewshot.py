"""CompAct by few-shot prompting: the next narration from k examples (Tables 9 to 12 and 14).

python -m mmgen.main --config=configs/compact_fewshot.py:model=fake:perfect,smoke
python -m mmgen.main --config=configs/compact_fewshot.py:dataset=compact_mcd,limit=200

Other arguments: shots=0..8 (5), template=llama2|idefics|idefics_unused, selection=overlap|random,
exclude=none|overlap|video, split=test|validation, images=none|keyframes with frames=DIR, limit=200,
dataset=NAME of `python -m mmgen.data.build compact` (compact_mcd, compact_random); without it the
built-in kitchen_world. temperature= and seed= give the spread over sampled runs. Without model= a
random guesser answers. Published, 5-shot: LLaMA2 BLEU 27.5, EM 5.4, CA 7.4; IDEFICS 25.6, 5.8, 7.9.
"""

from ml_collections import ConfigDict

from mmgen.settings.prompting import prompting_config
from mmgen.settings.prompting_args import apply_arguments


def get_config(argument: str = "") -> ConfigDict:
    config = prompting_config()
    config.name = "compact_fewshot"
    config.benchmark = "compact"
    return apply_arguments(config, argument)
