"""What suites of methods that release sums share."""

import pytest

from dpensemble.releases import SumReleaser


@pytest.fixture
def totals(monkeypatch):
    """The exact sums that reach the releaser, which are those that are charged, in their order."""
    seen, draw = [], SumReleaser.charge_and_draw

    def heard(self, query, total, share, **more):
        seen.append(total.astype(float))
        return draw(self, query, total, share, **more)

    monkeypatch.setattr(SumReleaser, "charge_and_draw", heard)
    return seen
