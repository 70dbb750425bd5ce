"""Tables of J. Jordon, J. Yoon and M. van der Schaar, "Differentially private bagging", NeurIPS 2019."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpensemble.reproduce.data import LIGHTGBM, STATSMODELS
from dpensemble.reproduce.declared import Experiment, Need, Panel, Status, Table, rows_of
from dpensemble.reproduce.dpbag import (
    ACCURACY,
    AS_STATED,
    AUPRC,
    AUROC,
    EXACT,
    LABELS,
    MOMENTS,
    NO_PRIVACY,
    cells,
    column,
)

_EPSILONS = (1, 3, 5)
_COLUMNS = tuple(column(epsilon) for epsilon in _EPSILONS)
_SCORES = tuple(Panel(title=title, columns=_COLUMNS) for title in (ACCURACY, AUROC, AUPRC))
_COUNTS = (Panel(title=LABELS, columns=_COLUMNS, digits=0),)
_PAPER = "Jordon, Yoon and van der Schaar 2019 (DPBag), supplement, table"
_BESIDE = {
    AS_STATED: "paper's account, delta 1e-5",
    EXACT: "ours: exact worst case, delta 1e-5",
}
_ABOUT = (
    "A third of the records is private, a third public, a third for testing, split anew in every run; teachers "
    "and student are of one kind, except that the student of boosted teachers is a logistic regression, as few "
    "hundred noisy labels suit it better. *Reproduced* is by the paper's account at delta 1e-3 and counts the query "
    "that breaches the budget: that, and not the printed delta of 1e-5, is what gives its data-independent counts. "
    "The next column holds what the same account allows within the budget at the delta that the paper states. "
    "DPBag's own account is data-dependent: right for the data at hand, and not to be published."
)
_EXTENSION = (
    "*Exact worst case* charges for the released label instead of the noisy counts, at the paper's noise and at delta "
    "1e-5; it holds for all data sets, may be published, and allows more labels than the data-dependent account. "
    "The row *Label moments* is the library's default method at the same epsilon and delta 1e-5, without any teacher."
)


def _experiment(
    name: str, data: str, learner: str, sizes: Mapping[str, Any], free: Mapping[str, Any], needs: tuple[Need, ...]
) -> Experiment:
    boosted = learner == "boosting"
    small = {"100": [50]} if boosted else {"50": [10], "100": [10], "250": [10]}
    return Experiment(
        name=name,
        settings={
            "data": data,
            "learner": learner,
            "epsilons": list(_EPSILONS),
            "sizes": dict(sizes),
            "data_independent": dict(free),
            "repeats": 10,
        },
        quick={"sizes": small | ({"100": [5]} if boosted else {}), "repeats": 1},
        cells=cells,
        needs=needs,
    )


_LINEAR_SIZES = {"50": [10, 50, 100], "100": [10, 50, 100], "250": [10, 50, 100]}
_LINEAR_FREE = {"100": [50, 100], "250": [50, 100]}
_BOOSTED_SIZES = {"100": [50, 100], "150": [50, 100]}

ADULT_LINEAR = _experiment("dpbag-adult-linear", "adult", "logistic-regression", _LINEAR_SIZES, _LINEAR_FREE, ())
ADULT_BOOSTED = _experiment("dpbag-adult-boosted", "adult", "boosting", _BOOSTED_SIZES, _BOOSTED_SIZES, (LIGHTGBM,))
HEALTH_LINEAR = _experiment(
    "dpbag-health-linear", "rand-health", "logistic-regression", _LINEAR_SIZES, _LINEAR_FREE, (STATSMODELS,)
)
HEALTH_BOOSTED = _experiment(
    "dpbag-health-boosted", "rand-health", "boosting", _BOOSTED_SIZES, _BOOSTED_SIZES, (LIGHTGBM, STATSMODELS)
)

_NPB = "{0} {0} {0} {1} {1} {1} {2} {2} {2}"


def _scored(printed: Mapping[str, str]) -> dict[str, dict[tuple[str, str], float]]:
    return rows_of(_SCORES, printed)


_SAA_LABELS = {
    "SAA n=50": "11 85 211",
    "SAA n=100": "43 338 843",
    "SAA n=250": "264 2108 5269",
}

_TABLE_1 = {
    "DPBag n=50 k=10": ".5538 .5933 .6073 .5478 .6015 .6310 .4738 .5187 .5459",
    "DPBag n=50 k=50": ".5628 .5941 .6123 .5516 .6134 .6385 .4760 .5317 .5560",
    "DPBag n=50 k=100": ".5478 .5886 .6083 .5475 .6037 .6333 .4739 .5255 .5520",
    "DPBag n=100 k=10": ".5635 .6051 .6137 .5581 .6285 .6431 .4828 .5467 .5625",
    "DPBag n=100 k=50": ".5639 .6085 .6154 .5547 .6326 .6453 .4793 .5530 .5656",
    "DPBag n=100 k=100": ".5667 .6050 .6142 .5626 .6295 .6448 .4895 .5496 .5652",
    "DPBag n=250 k=10": ".5919 .6032 .6066 .6008 .6330 .6399 .5234 .5542 .5623",
    "DPBag n=250 k=50": ".5888 .6061 .6099 .5954 .6320 .6391 .5161 .5526 .5607",
    "DPBag n=250 k=100": ".5986 .6077 .6091 .6096 .6373 .6398 .5289 .5542 .5644",
    "DPBag- n=100 k=50": ".5614 .6019 .6128 .5544 .6288 .6429 .4792 .5411 .5612",
    "DPBag- n=100 k=100": ".5596 .6007 .6108 .5609 .6174 .6354 .4767 .5338 .5525",
    "DPBag- n=250 k=50": ".5855 .6051 .6086 .5896 .6295 .6366 .5093 .5498 .5565",
    "DPBag- n=250 k=100": ".5875 .6061 .6110 .5884 .6321 .6407 .5103 .5518 .5615",
    "SAA n=50": ".5468 .5842 .6002 .5367 .5927 .6159 .4596 .5086 .5310",
    "SAA n=100": ".5613 .6006 .6077 .5567 .6144 .6280 .4837 .5342 .5471",
    "SAA n=250": ".5798 .6019 .6024 .5778 .6284 .6356 .5023 .5496 .5559",
    NO_PRIVACY: _NPB.format(".6527", ".6992", ".6281"),
}
_TABLE_2 = {
    "DPBag n=50 k=10": "17 120 301",
    "DPBag n=50 k=50": "20 137 345",
    "DPBag n=50 k=100": "20 139 351",
    "DPBag n=100 k=10": "62 507 1277",
    "DPBag n=100 k=50": "74 593 1487",
    "DPBag n=100 k=100": "76 609 1538",
    "DPBag n=250 k=10": "372 2978 7452",
    "DPBag n=250 k=50": "468 3785 6380",
    "DPBag n=250 k=100": "507 4044 6805",
    **_SAA_LABELS,
}
_TABLE_3 = {
    "DPBag n=100 k=50": ".5740 .6002 .6121 .5827 .6239 .6307 .5073 .5473 .5641",
    "DPBag n=100 k=100": ".5906 .6165 .6239 .5908 .6265 .6444 .5115 .5502 .5613",
    "DPBag n=150 k=50": ".5912 .6060 .6164 .5987 .6281 .6322 .5182 .5423 .5656",
    "DPBag n=150 k=100": ".5835 .6101 .6218 .5936 .6289 .6451 .5170 .5504 .5691",
    "DPBag- n=100 k=50": ".5633 .5978 .6054 .5723 .6189 .6231 .4887 .5387 .5424",
    "DPBag- n=100 k=100": ".5665 .6061 .6136 .5714 .6203 .6334 .4894 .5393 .5521",
    "DPBag- n=150 k=50": ".5786 .6022 .6113 .5911 .6195 .6292 .5066 .5377 .5556",
    "DPBag- n=150 k=100": ".5751 .6014 .6186 .5864 .6193 .6355 .5158 .5433 .5523",
    "SAA n=100": ".5763 .5959 .6068 .5796 .6132 .6261 .4948 .5284 .5457",
    "SAA n=150": ".5731 .5977 .6111 .5839 .6137 .6276 .5005 .5353 .5511",
    NO_PRIVACY: _NPB.format(".6482", ".6945", ".6215"),
}
_TABLE_4 = {
    "DPBag n=100 k=50": "73 615 1527",
    "DPBag n=100 k=100": "79 635 1591",
    "DPBag n=150 k=50": "161 1332 3329",
    "DPBag n=150 k=100": "174 1386 3473",
    "SAA n=100": "43 338 843",
    "SAA n=150": "95 759 1897",
}
_TABLE_5 = {
    "DPBag n=50 k=10": ".7532 .7934 .8042 .7005 .8069 .8176 .4031 .5505 .5751",
    "DPBag n=50 k=50": ".7384 .7908 .8056 .6816 .7714 .8187 .3837 .4988 .5690",
    "DPBag n=50 k=100": ".7467 .7872 .8018 .6609 .7811 .8160 .3990 .5159 .5717",
    "DPBag n=100 k=10": ".7721 .8061 .8221 .7386 .8005 .8237 .4514 .5503 .6068",
    "DPBag n=100 k=50": ".7736 .8089 .8201 .7382 .8053 .8299 .4558 .5625 .6031",
    "DPBag n=100 k=100": ".7707 .8092 .8233 .7379 .8051 .8388 .4497 .5648 .6216",
    "DPBag n=250 k=10": ".7950 .8170 .8213 .8062 .8339 .8445 .5384 .6091 .6225",
    "DPBag n=250 k=50": ".7938 .8199 .8249 .7831 .8448 .8524 .5216 .6191 .6389",
    "DPBag n=250 k=100": ".8035 .8207 .8236 .7920 .8393 .8505 .5433 .6137 .6350",
    "DPBag- n=100 k=50": ".7644 .7922 .8117 .7426 .7963 .8253 .4548 .5406 .5977",
    "DPBag- n=100 k=100": ".7697 .7989 .8130 .7490 .8002 .8291 .4631 .5503 .5985",
    "DPBag- n=250 k=50": ".7918 .8155 .8206 .7907 .8355 .8482 .5287 .6012 .6274",
    "DPBag- n=250 k=100": ".7919 .8156 .8220 .7922 .8301 .8466 .5259 .5993 .6291",
    "SAA n=50": ".7107 .7766 .7939 .6553 .7701 .7934 .3755 .5072 .5485",
    "SAA n=100": ".7579 .7986 .8149 .7652 .8057 .8291 .4795 .5590 .6147",
    "SAA n=250": ".7883 .8103 .8137 .7825 .8261 .8378 .5193 .5976 .6163",
    NO_PRIVACY: _NPB.format(".8472", ".9029", ".7526"),
}
_TABLE_6 = {
    "DPBag n=50 k=10": "20 91 228",
    "DPBag n=50 k=50": "21 94 235",
    "DPBag n=50 k=100": "22 94 236",
    "DPBag n=100 k=10": "52 372 938",
    "DPBag n=100 k=50": "54 385 963",
    "DPBag n=100 k=100": "55 390 973",
    "DPBag n=250 k=10": "297 2371 5917",
    "DPBag n=250 k=50": "310 2496 6240",
    "DPBag n=250 k=100": "317 2533 6327",
    **_SAA_LABELS,
}
_TABLE_7 = {
    "DPBag n=100 k=50": ".7743 .7986 .8069 .7655 .7861 .7997 .4908 .5548 .5746",
    "DPBag n=100 k=100": ".7763 .7947 .8028 .7406 .7820 .7879 .4641 .5505 .5648",
    "DPBag n=150 k=50": ".7697 .7974 .8157 .7548 .7873 .8033 .4984 .5581 .5873",
    "DPBag n=150 k=100": ".7730 .7963 .8183 .7582 .7802 .8039 .5084 .5561 .5883",
    "DPBag- n=100 k=50": ".7407 .7901 .8018 .6527 .7684 .7932 .4325 .5492 .5701",
    "DPBag- n=100 k=100": ".7673 .7945 .8004 .7149 .7812 .7956 .4048 .5472 .5693",
    "DPBag- n=150 k=50": ".7717 .7952 .8159 .7688 .7852 .7963 .5036 .5367 .5803",
    "DPBag- n=150 k=100": ".7720 .7942 .8101 .7613 .7729 .7919 .4956 .5414 .5723",
    "SAA n=100": ".7364 .7747 .7896 .6864 .7631 .7821 .3861 .5268 .5517",
    "SAA n=150": ".7693 .7879 .8014 .7540 .7717 .7889 .4971 .5466 .5748",
    NO_PRIVACY: _NPB.format(".8713", ".9245", ".8199"),
}
_TABLE_8 = {
    "DPBag n=100 k=50": "51 413 1037",
    "DPBag n=100 k=100": "52 413 1042",
    "DPBag n=150 k=50": "115 931 2323",
    "DPBag n=150 k=100": "117 933 2336",
    "SAA n=100": "44 338 843",
    "SAA n=150": "95 759 1897",
}
_STAND_IN = (
    " **Stand-in**: the paper's 24,175 patients with heart failure are private. Here are 20,190 person-years of the "
    "RAND Health Insurance Experiment (public domain, packaged with statsmodels), and the question is who sees a "
    "doctor more than twice a year. Only the settings are the paper's, so differences say nothing about it; the "
    "data-independent counts of labels are the same for all data."
)


def _pair(
    number: int,
    experiment: Experiment,
    data: str,
    learner: str,
    printed: tuple[Mapping[str, str], Mapping[str, str]],
    whys: tuple[str, str],
    status: Status = Status.DONE,
) -> tuple[Table, Table]:
    """Return the tables of scores and of label counts that one experiment fills."""
    about = _ABOUT + (_STAND_IN if status is Status.STAND_IN else "")
    common: dict[str, Any] = {"experiment": experiment, "beside": _BESIDE, "about": about, "status": status}
    return (
        Table(
            name=f"dpbag-{number}",
            where=f"{_PAPER} {number}",
            title=f"Scores on {data}, {learner}",
            panels=_SCORES,
            published=_scored(printed[0]),
            ours=(MOMENTS,),
            why=whys[0],
            extension=_EXTENSION,
            **common,
        ),
        Table(
            name=f"dpbag-{number + 1}",
            where=f"{_PAPER} {number + 1}",
            title=f"Labels until the budget is used up on {data}, {learner}",
            panels=_COUNTS,
            published=rows_of(_COUNTS, printed[1]),
            why=whys[1],
            extension=_EXTENSION,
            **common,
        ),
    )


_HEART, _LINEAR, _BOOSTED = "heart failure", "logistic regression", "gradient boosting"
_OTHER_DATA = (
    "The heart-failure records of the paper are not public, and these are others, so that differences are expected."
)
_LABELS_WHY = (
    "SAA's counts, which depend on no data, come out to the label, and DPBag's at 250 teachers within 2 %. At "
    "epsilon 1 with 50 and 100 teachers 7 to 11 more labels are printed than we find, about as many at either "
    "size; the reason is not known. More partitions or other seeds do not close the gap (10 to 100 partitions, "
    "every run)."
)
_SCORES_WHY = (
    "The paper does not say how columns are scaled nor how strongly students are penalised, and both move the scores "
    "by more than the differences. Tried with SAA, 100 teachers, epsilon 5 (accuracy, AUROC, AUPRC; printed .815, "
    ".829, .615): standardised columns and scikit-learn's penalty, as here, .820, .846, .657 over 18 draws of the "
    "noise; columns from 0 to 1 .808, .819, .600; standardised without a penalty .800, .798, .556 (three runs each). "
    "The printed ones lie between."
)
_BOOSTED_WHY = (
    "The paper's boosting is not described. Here it is LightGBM, 100 trees of 8 leaves, at least 5 records a leaf, and "
    "the student is a logistic regression, as the account above says."
)
_LABELS_WHY_BOOSTED = "SAA's counts come out to the label, but for one that the paper rounds otherwise (44 for 43)."

DPBAG_TABLES = (
    *_pair(1, HEALTH_LINEAR, _HEART, _LINEAR, (_TABLE_1, _TABLE_2), (_OTHER_DATA, _OTHER_DATA), Status.STAND_IN),
    *_pair(3, HEALTH_BOOSTED, _HEART, _BOOSTED, (_TABLE_3, _TABLE_4), (_OTHER_DATA, _OTHER_DATA), Status.STAND_IN),
    *_pair(5, ADULT_LINEAR, "Adult", _LINEAR, (_TABLE_5, _TABLE_6), (_SCORES_WHY, _LABELS_WHY)),
    *_pair(7, ADULT_BOOSTED, "Adult", _BOOSTED, (_TABLE_7, _TABLE_8), (_BOOSTED_WHY, _LABELS_WHY_BOOSTED)),
)
