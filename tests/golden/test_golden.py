"""What the library answered before its designs were rewritten: labels, epsilons, guarantees and prices, case by case.

Each line of ``golden.json`` is a case in plain words and what came out. Data follow from three numbers.
"""

import json
import warnings
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import dpensemble
from dpensemble import Budget, plan
from dpensemble.accounting import Accounting, Change, price
from dpensemble.design import Census, InfluenceRule, smallest_ensemble
from dpensemble.engine.voting import PrivateDiagnostics
from dpensemble.errors import DPEnsembleError
from dpensemble.laws import LAWS, RandomizedResponseMajority, TableLaw

CASES = json.loads(Path(__file__).with_name("golden.json").read_text())
METHODS = {
    "saa": dpensemble.SubsampleAggregateClassifier,
    "dpbag": dpensemble.DPBaggingClassifier,
    "pate": dpensemble.PATEClassifier,
    "bagged-pate": dpensemble.BaggedPATEClassifier,
    "upsampling-pate": dpensemble.UpsamplingPATEClassifier,
    "vanishing-pate": dpensemble.VanishingPATEClassifier,
    "weighting-pate": dpensemble.WeightingPATEClassifier,
    "private-majority": dpensemble.PrivateMajorityClassifier,
    "bagging": dpensemble.BaggingPrivacyClassifier,
}
TABLES = {"darrm-table": RandomizedResponseMajority, "table": TableLaw}
ORDERS = (0, 50, 200, -1)
# A design that is given in full repeats every digit. Noise or weights that are searched repeat a few.
FIXED, SEARCHED = 1e-9, 1e-4


def of_kind(kind):
    return [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] == kind]


def law_of(law):
    """Return the object, or the short name where that is all that was asked for."""
    fields = {name: value for name, value in law.items() if name != "name"}
    if not fields:
        return law["name"]
    for name in ("gamma", "table"):
        if name in fields:
            fields[name] = tuple(tuple(row) if isinstance(row, list) else row for row in fields[name])
    return (dict(LAWS) | TABLES)[law["name"]](**fields)


def estimator(case):
    settings = dict(case["settings"])
    if case["law"] is not None:
        settings["law"] = law_of(case["law"])
    if isinstance(settings.get("rule"), dict):
        settings["rule"] = InfluenceRule(**{k: v for k, v in settings["rule"].items() if k != "name"})
    if isinstance(settings.get("teacher_privacy"), list):
        settings["teacher_privacy"] = tuple(settings["teacher_privacy"])
    if case["method"] == "bagging":
        del settings["epsilon"]
    classes = list(range(case["data"]["n_classes"]))
    return METHODS[case["method"]](**settings, classes=classes, random_state=0, insecure_release_seed=1)


@cache
def data(n_records, n_public, n_classes):
    rng = np.random.default_rng(0)
    X, X_public = rng.normal(size=(n_records, 4)), rng.normal(size=(n_public, 4))
    noise = rng.normal(size=n_records)
    if n_classes == 2:
        y = (X[:, 0] + 0.5 * X[:, 1] + 0.5 * noise > 0).astype(int)
    else:
        scores = X[:, :2] @ np.array([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]]).T
        scores[:, 0] += noise
        y = scores.argmax(axis=1)
    n_units = max(1, n_records // 3)
    units = rng.integers(0, n_units, size=n_records)
    two, by_unit = rng.integers(0, 2, size=n_records), rng.integers(0, 2, size=n_units)[units]
    groups = {"two": two, "three": rng.integers(0, 3, size=n_records), "by-unit": by_unit}
    return {"X": X, "y": y, "X_public": X_public}, units, groups


def fitted(case):
    """Fit, and return the estimator and the diagnostics."""
    arguments, units, groups = data(**case["data"])
    arguments = dict(arguments)
    if case["units"]:
        arguments["units"] = units
    found = PrivateDiagnostics() if case["diagnostics"] else None
    if case["method"] == "bagging":
        del arguments["X_public"]
    else:
        arguments["diagnostics"] = found
    fit = dict(case.get("fit", {}))
    if fit:
        entries = fit.pop("entries")
        arguments["budgets"] = [entries[group] for group in groups[fit.pop("grouping")].tolist()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return estimator(case).fit(**arguments, **fit), found


def digest(values):
    return sha256(",".join(str(int(v)) for v in values).encode()).hexdigest()[:16]


def precision(case):
    """Weights or copies are searched unless published, and so is Gaussian noise on a private majority."""
    rule = case["settings"].get("rule", "solved" if "fit" in case else "published")
    published = rule == "published" or (isinstance(rule, dict) and rule.get("published"))
    return FIXED if published and case["law"] != {"name": "gnmax"} else SEARCHED


@pytest.mark.parametrize("case", of_kind("fit"))
def test_fits_release_the_same_labels_under_the_same_guarantee(case):
    expected = case["result"]
    if "error" in expected:
        with pytest.raises(DPEnsembleError) as caught:
            fitted(case)
        assert type(caught.value).__name__ == expected["error"]
        return
    model, diagnostics = fitted(case)
    stated, close = model.guarantee_.to_dict(), precision(case)
    for name in ("delta", "basis", "relation", "unit", "fixed_number"):
        assert stated[name] == expected[name]
    assert stated["epsilon"] == pytest.approx(expected["epsilon"], rel=close)
    assert [group["name"] for group in stated["groups"]] == [group["name"] for group in expected["groups"]]
    for name in ("epsilon", "budget"):
        there = [group[name] for group in expected["groups"]]
        assert [group[name] for group in stated["groups"]] == pytest.approx(there, rel=close)
    if case["method"] == "bagging":
        assert model.subsample_ == expected["subsample"]
        return
    assert "".join(map(str, model.labels_.labels.tolist())) == expected["labels"]
    assert digest(model.labels_.indices) == expected["indices_sha"]
    assert model.labels_.n_asked == expected["n_asked"]
    if "public_spend" in expected:
        assert model.spend_[-1][0] == expected["public_spend"][0]
        assert max(model.spend_[-1][1]) == pytest.approx(expected["public_spend"][1], rel=close)
    if "diagnostics" in expected:
        assert diagnostics.spend[-1] == pytest.approx(tuple(expected["diagnostics"]["spend"]), rel=close)
        for name in ("margins", "n_constant", "n_failed", "group_spent"):
            # One group had none of its own then.
            if expected["diagnostics"][name] != []:
                assert getattr(diagnostics, name) == pytest.approx(expected["diagnostics"][name], rel=close)


def planned(case):
    arguments, delta = dict(case["arguments"]), case["arguments"]["delta"]
    del arguments["delta"]
    facts = {"n_classes": arguments.pop("n_classes", 2), "n_records": arguments.pop("records", None)}
    if "census" in arguments:
        census = arguments.pop("census")
        budgets = tuple(Budget(epsilon=epsilon, delta=delta) for epsilon in census["epsilons"])
        facts["census"] = Census(names=tuple(census["names"]), budgets=budgets, shares=tuple(census["shares"]))
        names = [name for name in ("precision", "vanish_at_end") if name in arguments]
        if names:
            arguments["rule"] = InfluenceRule(**{name: arguments.pop(name) for name in names})
    wanted = {name: arguments.pop(name) for name in ("epsilon", "labels") if name in arguments}
    size = {name: arguments.pop(name) for name in ("agreement", "label_accuracy") if name in arguments}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        design = METHODS[case["method"]](**arguments, law=law_of(case["law"])).design(**facts)
        if not size:
            return plan(design, **wanted, delta=delta)
        design = design.with_budget(Budget(epsilon=wanted["epsilon"], delta=delta))
        return smallest_ensemble(design, labels=wanted["labels"], **size).plan


@pytest.mark.parametrize("case", of_kind("plan"))
def test_plans_buy_the_same(case):
    expected = case["result"]
    if "error" in expected:
        with pytest.raises(DPEnsembleError) as caught:
            planned(case)
        assert type(caught.value).__name__ == expected["error"]
        return
    found = planned(case).to_dict()
    open_noise = set(case["law"]) == {"name"} and "labels" in case["arguments"]
    solved = "census" in case["arguments"] and case["arguments"].get("rule") != "published"
    close = SEARCHED if open_noise or solved else FIXED
    for name, value in expected.items():
        if name == "groups":
            for here, there in zip(found["groups"], value, strict=True):
                for key, entry in there.items():
                    assert here[key] == (pytest.approx(entry, rel=close) if isinstance(entry, float) else entry)
        elif name == "noise_at_most":
            # The search has become better.
            assert 0.98 * value < found["sigma"] <= value
        elif isinstance(value, float):
            assert found[name] == pytest.approx(value, rel=close)
        else:
            assert json.loads(json.dumps(found[name])) == value


@pytest.mark.parametrize("case", of_kind("price"))
def test_prices_are_the_same(case):
    law, change = law_of(case["law"]), Change(**case["change"])
    for accounting, expected in case["result"].items():
        if "error" in expected:
            with pytest.raises(DPEnsembleError):
                price(law, change, Accounting(accounting))
            continue
        found = price(law, change, Accounting(accounting))
        for part, curve in expected.items():
            cost = getattr(found, part)
            assert cost.rdp[list(ORDERS)].tolist() == pytest.approx(curve, rel=FIXED)
