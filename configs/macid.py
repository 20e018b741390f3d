"""MACID: find the intruder among four action descriptions (CALAMITA 2024), a prompted model.

python -m mmgen.main --config=configs/macid.py:model=fake:perfect
python -m mmgen.main --config=configs/macid.py:model=jax-package:smollm2,orders=rotations
python -m mmgen.main --config=configs/macid.py:model=server:http://localhost:8000/v1#NAME,shots=5

Other arguments: prompt=paper|corrected|harness|follow_up_0|follow_up_1|follow_up_2, scoring=auto|
generate|choices|both, format=quadruples|pairs, language=it|en, smoke, dataset=NAME (a data set of
`python -m mmgen.data.build macid`). Without model= a random guesser answers, so that the command
works anywhere and shows chance: .25. On the real 100 groups CALAMITA has .27 to .58 (SE .05).
"""

from ml_collections import ConfigDict

from mmgen.settings.prompting import prompting_config
from mmgen.settings.prompting_args import apply_arguments


def get_config(argument: str = "") -> ConfigDict:
    config = prompting_config()
    config.name = "macid"
    config.benchmark = "macid"
    return apply_arguments(config, argument)
