"""The tables and figures of the CoBSAT paper, from the files of runs."""

from collections.abc import Sequence

from mmgen.report.aggregate import Group
from mmgen.report.cobsat_cells import accuracies, published_accuracies
from mmgen.report.cobsat_claims import claims_table
from mmgen.report.cobsat_judges import agreement_table
from mmgen.report.cobsat_tables import COMPARISONS, comparison_table, overview_table
from mmgen.report.tables import Table


def all_tables(groups: Sequence[Group]) -> list[Table]:
    """Every table that one of the runs has a part in, the published values beside it."""
    ours = accuracies(groups)
    found = {**ours, **published_accuracies()}
    asked = {(key.prompt, key.training) for key in ours}
    tables = [
        overview_table(found),
        *(comparison_table(one, found) for one in COMPARISONS if one.only_with in asked),
        claims_table(found),
        agreement_table(groups),
    ]
    return [table for table in tables if table.rows]
