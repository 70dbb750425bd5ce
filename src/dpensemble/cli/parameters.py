"""How the command line shows parameters of estimators and laws, in one table of what their signatures lack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpensemble.cli.option import METHOD, PRIVACY, Option, own


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """How one parameter is shown. What is None is read from the constructor and its docstring."""

    flag: str | None = None
    #: A second name of the option, by method.
    also: tuple[tuple[str, str], ...] = ()
    #: Panel when the parameter is one of an estimator.
    panel: str = METHOD
    #: Whether `plan` also has the option.
    planned: bool = True
    #: Type, text and default of a parameter that is not a number, a text or a bool.
    kind: type | None = None
    text: str | None = None
    default: Any = None
    #: Options of the command that accompany or replace the parameter's own option.
    more: tuple[Option, ...] = ()
    replaced: bool = False
    #: Whether the fields of the parameter's rule are options too.
    rule: bool = False


_READ = Shown()
_GIVEN_BY_DATA_OR_ANOTHER_OPTION = Shown(replaced=True)
_PRIVATE = Shown(panel=PRIVACY)
_PRIVATE_OF_A_RUN = Shown(panel=PRIVACY, planned=False)
_TABLE = {
    **dict.fromkeys(("classes", "on_bad_record", "declared_columns", "law"), _GIVEN_BY_DATA_OR_ANOTHER_OPTION),
    **dict.fromkeys(("epsilon", "delta", "accounting"), _PRIVATE),
    **dict.fromkeys(("relation", "analysis", "max_labels"), _PRIVATE_OF_A_RUN),
    "private": Shown(flag="--private-teachers", panel=PRIVACY),
    "insecure_release_seed": Shown(
        panel=PRIVACY, planned=False, kind=int, text="Seed the noise: repeatable, NOT FOR RELEASE"
    ),
    "teacher_privacy": Shown(
        flag="--teacher-epsilon",
        replaced=True,
        more=(
            own("--teacher-epsilon", "Epsilon of each private teacher or ballot", float, PRIVACY),
            own("--teacher-delta", "Delta of each private teacher or ballot [0]", float, PRIVACY),
        ),
    ),
    "n_teachers": Shown(flag="--teachers", also=(("bagging", "--models"),)),
    "n_partitions": Shown(flag="--partitions"),
    "n_models": Shown(flag="--models"),
    "n_units": Shown(flag="--records"),
    "rule": Shown(rule=True),
    "teacher": Shown(
        planned=False,
        kind=str,
        text="Base learner: {learners}",
        more=(
            own("--backend", "Fit teachers on a cluster", panel=METHOD, choices=("dask",)),
            own("--scheduler", "Its address, such as tls://10.0.0.5:8786", panel=METHOD),
        ),
    ),
    "student": Shown(planned=False, kind=str, text="Student; as --teacher, if it can be saved"),
    "random_state": Shown(flag="--seed", planned=False, kind=int, text="Public seed; not of the noise"),
    "n_jobs": Shown(
        flag="--jobs", planned=False, kind=int, text="Parallel workers; -1 takes all cores [-1]", default=-1
    ),
}


def shown(name: str) -> Shown:
    """Return how a parameter is shown."""
    return _TABLE.get(name, _READ)


def flag_of(name: str) -> str:
    """Return the option of a parameter."""
    return shown(name).flag or "--" + name.replace("_", "-")
