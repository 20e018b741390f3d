"""Trains and evaluates one experiment.

    python -m mmgen.main --config=configs/FILE.py[:arg,...] [--workdir=DIR] [--config.key=value ...]

Options:
  --config=FILE[:args]  the experiment; args: smoke, text_only, model=, dataset=, profile=, seed=...
  --config.key=value    override of one key (mmgen/settings/defaults.py documents all of them)
  --workdir=DIR         where results go; default runs/<config>/<dataset>-<profile>-s<seed>-<hash>
  --describe            print the resolved experiment, its parameters, FLOPs and memory; no training
  --cite                print BibTeX of the experiment's paper and of this code
  --list                list the experiments that come with the code
  --help                print this text
"""

import sys
from collections.abc import Sequence

from absl import flags
from ml_collections import config_flags

from mmgen.errors import UserError
from mmgen.settings import command_line
from mmgen.settings.kinds import kind_of, load

_CONFIG = config_flags.DEFINE_config_file("config", None, "The experiment.", lock_config=True)
_WORKDIR = flags.DEFINE_string("workdir", "", "Where results go.")
_DESCRIBE = flags.DEFINE_bool("describe", False, "Print the experiment without training.")
_CITE = flags.DEFINE_bool("cite", False, "Print BibTeX.")
_LIST = flags.DEFINE_bool("list", False, "List the experiments.")


def main(argv: Sequence[str]) -> int:
    """Runs what the flags ask for; returns the exit status."""
    del argv
    if _LIST.value:
        print(command_line.list_configs())
        return 0
    if _CONFIG.value is None:
        raise UserError(
            "Give --config=FILE; `python -m mmgen.main --list` shows the experiments, "
            "--help the options."
        )
    if _CITE.value:
        from mmgen.report.citations import citations

        print(citations(_CONFIG.value.name))
        return 0
    # jax is imported only now, so that a typo is answered at once.
    from mmgen.core import distributed

    distributed.initialize()
    kind = kind_of(_CONFIG.value)
    if _DESCRIBE.value:
        print(load(kind.describe)(_CONFIG.value))
        return 0
    return load(kind.run)(_CONFIG.value, _WORKDIR.value, command=" ".join(sys.argv[1:]))


if __name__ == "__main__":
    command_line.run_app(main, __doc__ or "")
