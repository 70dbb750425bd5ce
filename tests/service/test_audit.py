"""An audit through HTTP: what answers reveal of one voter is there, and no more than was quoted."""

from dpensemble.audit import audit_pipeline
from dpensemble.server import Ledger

from .conftest import CONFIG, Served

N_RUNS = 1000


def test_answers_reveal_no_more_than_was_quoted(home):
    text = CONFIG.replace('{ name = "gnmax", sigma = 200.0 }', '{ name = "lnmax", scale = 2.0 }')
    text = text.replace("voters = 100", "voters = 10").replace("answers = 60", "answers = 2000")
    text = text.replace("epsilon = 2", "epsilon = 4000").replace('"patients"', '"audited"')
    (home / "service.toml").write_text(text)
    Ledger(home / "ledger.db").open_account("audited", epsilon=5000, delta=1e-3, filter="basic")
    served = Served(home)
    told = {}
    for counts in ((5, 5), (4, 6)):
        told[counts] = iter(served.ask(key=str(counts), counts=[counts] * N_RUNS).json()["labels"])
    claimed = served.get("/v1/grants/october/quote?answers=1").json()["epsilon"]
    result = audit_pipeline(lambda counts, _: next(told[counts]), (5, 5), (4, 6), n_runs=N_RUNS, delta=1e-6)
    assert not result.caught(claimed)
    assert result.epsilon_lower > 0.1 * claimed
