"""Several seeds of one CompAct run, one after the other, and what they say together.

DIR/s0, DIR/s1, ... are ordinary workdirs; DIR/seeds.json holds every metric's values, mean,
standard deviation and standard error, DIR/seeds.md the main ones as a table.
"""

import jax
from ml_collections import ConfigDict

from mmgen.compact.locate import locate_compact
from mmgen.core.workdir import Workdir
from mmgen.lifecycle import claim_seeds, seed_configs
from mmgen.report.seeds import write_seeds
from mmgen.settings.compact import resolve
from mmgen.settings.identity import default_workdir

SHOWN = ("bleu1_joined", "bleu1_plain", "em", "ca")


def run_seeds(config: ConfigDict, workdir: str, command: str) -> int:
    """Runs `config.num_seeds` seeds from `config.seed` on; the same command goes on where it was.

    Raises:
      UserError: the workdir is that of a single run or of other seeds, or another process has it.
    """
    from mmgen.compact.run import run

    folder = Workdir(workdir or _default_folder(config))
    configs = seed_configs(config)
    summaries = []
    with folder.lock():
        claim_seeds(folder, [one.seed for one in configs])
        for one in configs:
            own = Workdir(folder.file(f"s{one.seed}"))
            status = run(one, str(own.root), command)
            if status or not own.is_done:
                return status
            summaries.append(own.read_json("summary.json"))
        if jax.process_index() == 0:
            text = write_seeds(folder, summaries, SHOWN)
            print(f"{text}\nResults: {folder.root}")
    return 0


def _default_folder(config: ConfigDict) -> str:
    info = locate_compact(config).info
    return f"{default_workdir(resolve(config, info), info)}-x{config.num_seeds}"
