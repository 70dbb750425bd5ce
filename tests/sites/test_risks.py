"""Risks given a row over several sites: the sums of a model of times until an event, opened by all sites together."""

import json

import numpy as np
import pandas as pd
import pytest

import dpensemble.engine.run as engine
from dpensemble import LabelMomentsSurvival
from dpensemble.certificates import confirmed
from dpensemble.cli import main
from dpensemble.errors import DataError, InvalidParameterError
from dpensemble.methods import label_moments
from dpensemble.moments import survival
from dpensemble.persistence import load_classifier
from dpensemble.sites import RunTerms, SiteRun, exchange, sums
from dpensemble.sites.messages import SitesError
from tests.sites.hospitals import TIMED, Account, Hospitals, risky
from tests.sites.parties import ZeroNoise
from tests.sites.test_run import _as_all_sites

ONE_EVENT = {"times": {**TIMED["times"], "censored": [0, 2], "competing": []}}
ROWS = risky(50, 7, target=False)


def pooled_model(hospitals, monkeypatch, units=None, **settings):
    """Return the model of pooled records, with noise as if it were that of all sites."""
    pooled, terms = pd.concat(hospitals.tables.values(), ignore_index=True), hospitals.parties["coordinator"].terms
    codes = {name: [int(code) for code in terms.times[name]] for name in ("events", "censored", "competing")}
    model = LabelMomentsSurvival([30, 60, 90], **codes, epsilon=2.0, delta=1e-6, **settings)
    with monkeypatch.context() as patch:
        ordinary = label_moments.SumReleaser
        patch.setattr(label_moments, "SumReleaser", lambda **given: _as_all_sites(ordinary(**given), terms.noise()))
        targets = pooled[["status", "days"]]
        return model.fit(pooled[["age", "kind"]], targets, X_public=hospitals.public[["age", "kind"]], units=units)


def require_equal(hospitals, whole):
    """Require that all parties have the model of pooled records to the last bit."""
    for party in hospitals.parties.values():
        own = party.model_
        assert [one.description for one in own.result_.releases] == [one.description for one in whole.result_.releases]
        assert (own.life_table_.noisy == whole.life_table_.noisy).all()
        # Bands follow from the noise of all sites.
        assert own.life_table_.to_dict() == whole.life_table_.to_dict()
        ours, theirs = (one.student_.steps[-1][1] for one in (own, whole))
        for name in ("hazards_", "others_", "censoring_", "coefficients_"):
            assert np.array_equal(getattr(ours, name), getattr(theirs, name))
        assert (own.predict_risk(ROWS, [30, 45, 90]) == whole.predict_risk(ROWS, [30, 45, 90])).all()


@pytest.mark.parametrize(
    ("sizes", "settings"),
    [
        ((60, 80, 100), {}),
        pytest.param((60, 80, 100), ONE_EVENT, marks=pytest.mark.nightly),
        pytest.param((40,) * 5, {"relation": "add-or-remove-one"}, marks=pytest.mark.nightly),
    ],
)
def test_without_noise_the_model_is_that_of_pooled_records_to_the_last_bit(tmp_path, monkeypatch, sizes, settings):
    monkeypatch.setattr(engine, "noise_source", lambda _: ZeroNoise())
    hospitals = Hospitals(tmp_path, sizes, rows=risky, **settings).all_join().play()
    whole = pooled_model(hospitals, monkeypatch, relation=settings.get("relation", "replace-one"))
    require_equal(hospitals, whole)
