"""CoBSAT: text-to-image in-context learning (Zeng et al., 2024), a prompted model.

python -m mmgen.main --config=configs/cobsat.py:model=fake:perfect,smoke
python -m mmgen.main --config=configs/cobsat.py:model=fake:perfect,output=image,shots=4
python -m mmgen.main --config=configs/cobsat.py:model=jax-package:smollm2,prompt=caption,limit=50
python -m mmgen.main --config=configs/cobsat.py:model=server:URL#NAME,judge=server:URL#JUDGE

Arguments: shots=0..8, prompt=default|exact|misleading|instruct|caption|cot, output=text|image,
task=all|object|attribute|color|Color-I|1 (several: color+style), split=default|ft_test,
instructions=llava, table=repo, selection=similar, votes=5 (with temperature=), words=letters,
parser=official, audit=true, limit=N (prompts of each task), dataset=NAME or a folder in the
official layout, judge=pixel|words|clip:DIR|SPEC. Without model= a random guesser answers, so that
the command works anywhere and shows chance: .01. Published, 2-shot: Qwen-VL .475 on Color-I (text),
SEED-LLaMA .680 (image). All 10,000 prompts of a fake take minutes, most of them drawing.
"""

from ml_collections import ConfigDict

from mmgen.settings.prompting import prompting_config
from mmgen.settings.prompting_args import apply_arguments


def get_config(argument: str = "") -> ConfigDict:
    config = prompting_config()
    config.name = "cobsat"
    config.benchmark = "cobsat"
    return apply_arguments(config, argument)
