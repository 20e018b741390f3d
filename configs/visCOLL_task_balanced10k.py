"""Experience replay from a task-balanced memory of 10k: an oracle that knows the task.

python -m mmgen.main --config=configs/visCOLL_task_balanced10k.py

scene_world (the default): about 50 s on one CPU core; test log-PPL 2.15 +- 0.06 over 5 seeds.
"""

from ml_collections import ConfigDict

from mmgen.settings.args import apply_arguments
from mmgen.settings.defaults import default_config


def get_config(argument: str = "") -> ConfigDict:
    config = default_config()
    config.name = "visCOLL_task_balanced10k"
    config.algorithm.name = "er"
    config.memory.policy = "task_balanced"
    config.memory.size = "10k"
    return apply_arguments(config, argument)
