"""Several services on one SQLite file, and many threads in each."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from .conftest import Served

# Newer Pythons warn of forks of a process with threads. Those of linear algebra are idle here.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def test_services_share_a_budget_and_agree_on_every_key(home):
    served = Served(home)
    assert served.ask(key="first").status_code == 200
    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                mine = Served(home)
                ask = partial(mine.ask, counts=[[50, 50]] * 4)
                with mine.client, ThreadPoolExecutor(6) as pool:
                    found = list(pool.map(ask, map(str, range(24))))
                told = {str(key): [one.status_code, one.json().get("labels")] for key, one in enumerate(found)}
                (home / f"told{number}").write_text(json.dumps(told))
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    told = [json.loads((home / f"told{number}").read_text()) for number in range(4)]
    # 59 are left, so fourteen requests for four each fit, whichever came first.
    answered = {key for one in told for key, (status, _) in one.items() if status == 200}
    assert len(answered) == 14
    for key in answered:
        assert len({json.dumps(one[key][1]) for one in told if one[key][0] == 200}) == 1
    assert {status for one in told for status, _ in one.values()} <= {200, 403}
    assert served.get("/v1/grants/october").json()["remaining"] == 3
    assert served.ledger.verify().requests == 15
