"""Choose the tables of the regions by a rule: python benchmarks/regions.py [--development].

The issue of accuracy where users are names seven regions. Candidates are the tables in `arena.regions.CANDIDATES`,
which leave out those of the arena. A candidate fits if its rows with a target, columns, classes, text columns and
largest class are within the bounds of its region. Candidates that fit are ordered by the SHA-256 of their names. The
first ones are for reports, and as many after them for development. Where the packages have one candidate only, it is
for reports. Generated tables are added to both, with other seeds. No score is looked at.

Without options the script prints the tables of reports and checks that the names in `arena.regions` are what the rule
chooses. `--development` prints the tables on which methods may be developed.
"""

from __future__ import annotations

import argparse
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np

_HERE = Path(__file__).resolve().parent
sys.path[0] = str(_HERE)

from arena import regions  # noqa: E402
from arena.environments import table_packages  # noqa: E402
from arena.regions import CANDIDATES, REGIONS, Region  # noqa: E402
from arena.sources import read, rows_of  # noqa: E402
from arena.tables import TABLES, Table  # noqa: E402


def chosen(region: Region, folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the real tables for reports and for development."""
    taken = {(table.package, table.item) for table in TABLES}
    fitting = [
        table.name
        for table in CANDIDATES[region.name]
        if (table.package, table.item) not in taken and fits(table, region, folder)
    ]
    ordered = sorted(fitting, key=lambda name: sha256(name.encode()).hexdigest())
    return tuple(ordered[: region.real]), tuple(ordered[region.real : 2 * region.real])


def fits(table: Table, region: Region, folder: Path) -> bool:
    """Return whether a candidate is within the bounds of its region."""
    X, y, classes = read(table, folder)
    texts = sum(X[name].dtype != float for name in X)
    held = [
        (len(X), region.rows),
        (X.shape[1], region.columns),
        (len(classes), region.classes),
        (texts, (region.texts, X.shape[1])),
        (np.bincount(y).max() / len(y), region.largest),
    ]
    return all(low <= value <= high for value, (low, high) in held)


def described(table: Table, folder: Path) -> str:
    """Return one line of a table: rows of its parts, columns, classes and shares."""
    rows = rows_of(table, 0, folder)
    shares = np.bincount(np.append(rows.y_private, rows.y_test)) / (len(rows.y_private) + len(rows.y_test))
    texts = sum(rows.X_public[name].dtype != float for name in rows.X_public)
    return (
        f"{table.name}: {table.title} ({table.package}). {len(rows.X_private):,} private rows, {len(rows.X_public):,} "
        f"public, {len(rows.X_test):,} for testing. {rows.X_public.shape[1]} columns, {texts} of texts. Classes "
        f"{', '.join(f'{share:.3f}' for share in shares)}. epsilon {', '.join(f'{e:g}' for e in table.epsilons)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--development", action="store_true", help="print the tables of development instead")
    parser.add_argument("--home", type=Path, default=_HERE / "results" / "arena", help="folder of packages")
    arguments = parser.parse_args()
    folder = table_packages(arguments.home)
    names = {region.name: chosen(region, folder) for region in REGIONS}
    listed = regions.DEVELOPMENT if arguments.development else regions.REPORT
    for region in REGIONS:
        print(f"{region.name}: {region.title}")
        for table in listed[region.name]:
            print(f"  {described(table, folder)}")
    by_rule = [{name: pair[place] for name, pair in names.items()} for place in (0, 1)]
    if by_rule != [regions.CHOSEN, regions.CHOSEN_FOR_DEVELOPMENT]:
        raise SystemExit(f"the rule chooses other tables than arena/regions.py lists:\n{by_rule[0]}\n{by_rule[1]}")


if __name__ == "__main__":
    main()
