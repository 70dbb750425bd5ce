"""Every table and figure of the five texts, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass

from dpensemble.reproduce.catalogue import TABLES
from dpensemble.reproduce.declared import Status

DPBAG = "Jordon et al. 2019 (DPBag)"
SUPPLEMENT = "Jordon et al. 2019, supplement"
BAGGING = "Liu et al. 2021 (bagging)"
DARRM = "DaRRM"
PERSONALISED = "Mühl and Boenisch 2022 (personalised PATE)"
#: The five texts.
TEXTS = (DPBAG, SUPPLEMENT, BAGGING, DARRM, PERSONALISED)

_BY_NAME = {table.name: table for table in TABLES}


@dataclass(frozen=True)
class Covered:
    """One table or figure of a text.

    Parameters
    ----------
    text : str
        One of `TEXTS`.
    number : str
        As it is called there.
    what : str
        What it shows.
    status : Status
        Where it stands.
    how : str
        The command that shows it, or why there is nothing to compute.
    """

    text: str
    number: str
    what: str
    status: Status
    how: str


def _run(text: str, number: str, name: str) -> Covered:
    table = _BY_NAME[name]
    return Covered(text, number, table.title, table.status, f"`dpensemble reproduce {name}`")


def _none(text: str, number: str, what: str, why: str) -> Covered:
    return Covered(text, number, what, Status.NOT_APPLICABLE, why)


def _formula(text: str, number: str, what: str, how: str) -> Covered:
    return Covered(text, number, what, Status.DONE, how)


#: In the order of the texts.
COVERAGE: tuple[Covered, ...] = (
    _run(DPBAG, "Table 1", "dpbag-1"),
    _run(DPBAG, "Table 2", "dpbag-2"),
    _none(DPBAG, "Figure 1", "How the data are divided", "a picture of the method"),
    *(_run(SUPPLEMENT, f"Table {number}", f"dpbag-{number}") for number in range(1, 9)),
    _formula(
        BAGGING,
        "Table 1",
        "Epsilon and delta of bagging as formulas",
        "`dpensemble plan bagging --records 60000 --subsample 300`",
    ),
    *(_run(BAGGING, f"Table {number}", f"bagging-{number}") for number in (2, 3, 4, 5)),
    _none(BAGGING, "Table 6", "Architecture of the network", "`dpensemble.neural.bagging_cnn`"),
    _run(BAGGING, "Figure 1", "bagging-figure-1"),
    _run(BAGGING, "Figure 2", "bagging-figure-2"),
    _none(DARRM, "Figure 1", "The problem", "a picture of it"),
    _run(DARRM, "Figure 2", "darrm-figure-2"),
    _run(DARRM, "Table 1", "darrm-1"),
    _none(DARRM, "Figures 3 to 5", "Regions of linear programs", "pictures of proofs"),
    _formula(
        DARRM,
        "Algorithms 2 to 5 and figures of appendix A to C",
        "Proofs",
        "enumerated in `tests/darrm` and `tests/oracle`",
    ),
    _run(DARRM, "Appendix D.1.1, table of parameters and its figure", "darrm-d.1.1"),
    _run(DARRM, "Appendix D.1.2, setting 1", "darrm-d.1.2-11"),
    _run(DARRM, "Appendix D.1.2, setting 2", "darrm-d.1.2-101"),
    _run(DARRM, "Appendix D.1.3, figure 9", "darrm-d.1.3"),
    _formula(
        DARRM,
        "Appendix D.2.1, figure 10 and table 4",
        "Noise of GNMax by order",
        "`dpensemble.reproduce.darrm.published_sigma` gives the printed 21.46 and 22.46",
    ),
    _run(DARRM, "Appendix D.2.2, m = 1", "darrm-d.2-m1"),
    _run(DARRM, "Appendix D.2.2, m = 5", "darrm-d.2-m5"),
    _run(DARRM, "Appendix D.2.2, m = 7", "darrm-d.2-m7"),
    _none(
        DARRM,
        "Tables of privacy loss by query (6.2 and D.2.2)",
        "Privacy loss of one and of all queries",
        "the text copy has lost every number of them",
    ),
    _none(PERSONALISED, "Figure 1", "The three schemes", "a picture of them"),
    _none(PERSONALISED, "Table 1", "Architecture of the network", "`dpensemble.neural.personalised_pate_cnn`"),
    _none(PERSONALISED, "Table 2", "Parameters", "the settings of `dpensemble reproduce personalised`"),
    *(_run(PERSONALISED, f"Table {number}", f"personalised-{number}") for number in range(3, 11)),
    _run(PERSONALISED, "Figure 2", "personalised-figure-2"),
    _run(PERSONALISED, "Figure 3", "personalised-figure-3"),
    _run(PERSONALISED, "Figure 4", "personalised-figure-4"),
)
