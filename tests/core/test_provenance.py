"""What a summary says of where its numbers come from."""

import importlib.metadata

from mmgen.core import provenance
from mmgen.lifecycle import common_summary
from mmgen.settings.defaults import default_config

INFO = {"name": "made_up", "fingerprint": "f", "licences": ["none"]}


def test_a_trained_run_names_the_version_of_its_metrics():
    facts = common_summary(default_config(), INFO, 1.0, "")
    assert facts["versions"]["sacrebleu"] == importlib.metadata.version("sacrebleu")


def test_versions_are_of_what_takes_part():
    assert "sacrebleu" not in provenance.versions()
    assert provenance.versions("no-such-package")["no-such-package"] == "unknown"
