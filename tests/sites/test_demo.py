"""The demonstration: processes that share nothing but messages."""

from dpensemble.sites.demo import Demo


def test_each_process_opens_its_own_folder_and_the_messages():
    outcome = Demo(n_sites=3, epsilon=1.0, seed=0).run()
    for name, folders in outcome["opened_folders"].items():
        assert folders == sorted(["messages", name])
    assert outcome["accuracy"] > 0.84
    assert outcome["auroc"] > 0.89
    assert outcome["verified"].startswith("yes: (epsilon 1, delta 1e-06) confirmed: 3 sites")
