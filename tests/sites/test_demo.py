"""The demonstration: processes that share nothing but messages."""

import pytest

from dpensemble.sites.demo import Demo, _Parties
from dpensemble.sites.messages import SitesError


# Without public rows, three runs with five sites had an accuracy from .851 and an AUROC from .905.
@pytest.mark.parametrize("without_public", [False, True])
def test_each_process_opens_its_own_folder_and_the_messages(without_public):
    outcome = Demo(n_sites=3, epsilon=1.0, seed=0, without_public=without_public).run()
    assert (outcome["public_rows"] == 0) is without_public
    for name, folders in outcome["opened_folders"].items():
        assert folders == sorted(["messages", name])
    assert outcome["accuracy"] > 0.84
    assert outcome["auroc"] > 0.89
    assert outcome["verified"].startswith("yes: (epsilon 1, delta 1e-06) confirmed: 3 sites")


def test_a_party_that_fails_is_stated_by_its_own_sentence(tmp_path):
    for name in ("messages", "site-1", "site-2"):
        (tmp_path / name).mkdir()
    with _Parties(tmp_path, ("site-1", "site-2")) as parties:
        parties.begin("site-1", "join", ["--name", "site-1", "--private", "none.csv"])
        with pytest.raises(SitesError, match=r"a party of the demonstration failed: .*messages hold no terms of a run"):
            parties.printed("site-1")
        parties.begin("site-2", "status", [])
        with pytest.raises(SitesError, match=r"holds no party of a run|hold no terms of a run"):
            parties.end()
