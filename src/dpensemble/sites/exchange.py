"""The steps by which sites and coordinator open one sum after another, and by which a lost attempt ends.

An attempt begins with a message of the coordinator. Every site then sends a new public key, which it signs. For each
sum, every site signs a transcript: the terms and all long-term keys, the keys of the attempt, and all sums that were
opened before. A site draws no noise before it has the same transcript from all others. Each site computes what the next
sum is, so that no coordinator can give it another centre. It charges, draws, masks and sends in one go, at most once
for each sum of an attempt. The secret key of the attempt is in the memory of one process and nowhere else.

If a site is lost, the coordinator begins the next attempt with the sum that was not opened. Each site then drops its
key. What was drawn stays charged, and is drawn and charged again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpensemble._entries import BigIntegers, Floats
from dpensemble._files import JSON
from dpensemble.moments.whole import AnyQuery
from dpensemble.releases import SumQuery, SumReleaser
from dpensemble.releases.parts import SiteNoise
from dpensemble.releases.sums import Outcome, PartialSums
from dpensemble.sites import masks
from dpensemble.sites.messages import Post, SitesError, StillWaiting, digest
from dpensemble.sites.terms import COORDINATOR, RunTerms

# Any sum, however its result is read.
_Query = SumQuery[JSON]
# Entries of a sum, at most.
_MOST_ENTRIES = 2**22
# Standard deviations that noise never exceeds, and by how many the length of a sum may exceed its bound.
_FAR = 40
# Numbers that stand for a centre, and their relative tolerance: processors round differently.
_PROJECTIONS, _ALIKE = 8, 1e-3
_SHORTEST_PAUSE, _LONGEST_PAUSE, _QUIET = 0.02, 1.0, 2.0
_OTHER_SUMS = (
    "the coordinator states other sums than it opened before, as after a restored back-up: what was drawn stays "
    "charged, and this site sends nothing more in this run."
)


class Opened(NamedTuple):
    """A sum that was opened: the attempt, its entries, and the digest of the coordinator's message. Public."""

    attempt: int
    entries: NDArray[np.int64]
    digest: str


class NextSum(NamedTuple):
    """What is summed next, as each party computes it from what was opened before. Public."""

    number: int
    about: str
    centre: list[float]


class _Ended(Exception):  # noqa: N818 - not an error
    """The attempt ended."""


@dataclass
class _Attempt:
    """One attempt, in the memory of one process."""

    number: int
    first: int
    key: JSON = None
    keys: dict[str, bytes] = field(default_factory=dict)
    transcript: str = ""
    signed: set[int] = field(default_factory=set)
    agreed: dict[int, str] = field(default_factory=dict)
    sent: set[int] = field(default_factory=set)


class Patience:
    """How long a party waits for others: for ever by default, or some seconds. `on_wait` gets what it waits for."""

    def __init__(self, seconds: float | None = None, on_wait: Callable[[str], None] = lambda _: None) -> None:
        self._seconds, self._on_wait = seconds, on_wait

    def looks(self, what: Callable[[], str]) -> Iterator[None]:
        """Yield before each look at the messages. Raise when the time is over."""
        start, pause, shown = time.monotonic(), _SHORTEST_PAUSE, ""
        while True:
            yield
            waited = time.monotonic() - start
            if self._seconds is not None and waited >= self._seconds:
                raise StillWaiting(what())
            if waited > _QUIET and what() != shown:
                shown = what()
                self._on_wait(shown)
            time.sleep(pause)
            pause = min(pause * 1.3, _LONGEST_PAUSE)


class _Exchange(ABC):
    """What site and coordinator have in common."""

    def __init__(self, terms: RunTerms, post: Post, roster: str, patience: Patience) -> None:
        self.terms, self.post, self.roster, self.patience = terms, post, roster, patience
        self.opened: list[Opened] = []
        self.attempt: _Attempt | None = None
        self.noise: SiteNoise = terms.noise()

    @property
    def now(self) -> int:
        """Number of the present attempt."""
        return 0 if self.attempt is None else self.attempt.number

    def _each(self, kind: str, what: str, attempt: int, number: int = 0) -> dict[str, tuple[JSON, str]]:
        """Return one message of every site, and wait for those that are missing."""
        arrived: dict[str, tuple[JSON, str]] = {}
        for _ in self._looks(lambda: f"{what} of {', '.join(one for one in self.terms.sites if one not in arrived)}"):
            for name in self.terms.sites:
                message = self.post.read(kind, name, attempt, number)
                if message is not None:
                    arrived[name] = message
            if len(arrived) == len(self.terms.sites):
                break
        return arrived

    def _looks(self, what: Callable[[], str]) -> Iterator[None]:
        """Yield until the caller finds what it waits for. Raise `_Ended` if the attempt is over."""

        def words() -> str:
            problems = "".join(f"; {problem}" for problem in self.post.problems.values())
            return f"{self.post.name} is waiting for {what()}{problems}."

        for _ in self.patience.looks(words):
            self._require_open()
            yield

    @abstractmethod
    def _require_open(self) -> None:
        """Raise `_Ended` if the present attempt is over."""

    def _agreed_keys(self, attempt: _Attempt) -> None:
        """Read the keys of an attempt, and find its transcript."""
        arrived = self._each("key", "the key", attempt.number)
        keys, history = {}, [one.digest for one in self.opened[: attempt.first]]
        for name, (body, _) in arrived.items():
            keys[name] = _key_in(body, name)
            if body["roster"] != self.roster or body["opened"] != history:
                raise SitesError(
                    f"{name} began attempt {attempt.number} after other sums or with other members than "
                    f"{self.post.name}, so the coordinator may have shown them different messages: nothing was drawn "
                    "in this attempt; stop the run and compare the folders."
                )
        if len(set(keys.values())) < len(keys):
            raise SitesError("two sites sent the same key, so one copied the other: nothing was drawn in this attempt.")
        attempt.keys = keys
        attempt.transcript = digest([self.roster, attempt.number, {name: arrived[name][1] for name in arrived}])

    def _transcript(self, attempt: _Attempt, number: int) -> str:
        """Return the digest of all that happened before a sum."""
        return digest([attempt.transcript, [one.digest for one in self.opened[:number]], number])

    def _all_agree(self, attempt: _Attempt, coming: NextSum) -> str:
        """Wait for the signatures of all sites under one transcript, and return the digest of all of them."""
        arrived = self._each("agree", "the signature", attempt.number, coming.number)
        own = self._transcript(attempt, coming.number)
        for name, (body, _) in arrived.items():
            if not isinstance(body, dict) or set(body) != {"transcript", "about", "centre"}:
                raise SitesError(f"{name} signed a message that this version does not know: install the same version.")
            if body["transcript"] != own:
                raise SitesError(
                    f"{name} signed another transcript before sum {coming.number + 1} than {self.post.name}, so the "
                    "coordinator showed them different messages: no noise was drawn for this sum; stop the run and "
                    "compare the folders."
                )
            if body["about"] != coming.about or not _alike(body["centre"], coming.centre):
                raise SitesError(
                    f"{name} computed another sum {coming.number + 1} from the same messages than {self.post.name}: "
                    "no noise was drawn for this sum; install the same versions at all sites."
                )
        return digest([own, {name: arrived[name][1] for name in arrived}])

    def _plausible(self, opened: Opened, coming: NextSum, query: _Query | None, spread: float, units: float) -> None:
        """Raise if a sum is longer than noise and the public number of units allow."""
        if query is None:
            return
        entries = opened.entries.astype(np.float64)
        longest = units * query.removing + spread * (math.sqrt(len(entries)) + _FAR)
        if not math.sqrt(float(entries @ entries)) <= longest:
            raise SitesError(
                f"sum {coming.number + 1} is larger than the units of all sites allow, so some site has more units "
                "than the terms declare, or sent something else: what was drawn stays charged; use larger most_units "
                "in a new run."
            )


class _Records(Protocol):
    """Private records of one site, as `dpensemble.rows.passes.SumsOfRecords`."""

    def sums(self, query: AnyQuery, number: int) -> PartialSums:
        """Return the exact sum of the site's records. Private."""


class CoordinatorExchange(_Exchange):
    """Adds masked sums. It holds no records, and sees no sum without the noise of all sites."""

    def _require_open(self) -> None:
        attempt = self.attempt
        if attempt is None:
            return
        for name in self.terms.sites:
            if self.post.read("lost", name, attempt.number) is not None:
                raise _Ended(name)

    def begin(self, number: int) -> None:
        """Begin the next attempt with a sum, if there may be one more."""
        last = max((one for one in range(1, self.terms.attempts + 1) if self._started(one)), default=0)
        if last >= self.terms.attempts:
            raise SitesError(
                f"all {self.terms.attempts} attempts of the run are used: what was drawn stays charged at every site; "
                "agree on a new run."
            )
        self.post.send("start", [[one.attempt, one.digest] for one in self.opened[:number]], last + 1)
        self.attempt = _Attempt(last + 1, number)

    def _started(self, attempt: int) -> bool:
        return self.post.read("start", COORDINATOR, attempt) is not None

    def resume(self) -> None:
        """Go on where another process of the coordinator ended. All that it knew is in the messages."""
        for attempt in range(self.terms.attempts, 0, -1):
            start = self.post.read("start", COORDINATOR, attempt)
            if start is None:
                continue
            self.opened = read_history(self.post, start[0])
            self.attempt = _Attempt(attempt, len(self.opened))
            while (more := read_opened(self.post, attempt, len(self.opened))) is not None:
                self.opened.append(more)
            return

    def open(
        self,
        coming: NextSum,
        query: _Query | None,
        spread: float,
        units: float,
        contribute: Callable[[], list[int]] | None = None,
    ) -> NDArray[np.int64]:
        """Return an opened sum: one that was opened before, or the sum of all sites' masked numbers."""
        del contribute
        while coming.number >= len(self.opened):
            if self.attempt is None:
                self.begin(coming.number)
            try:
                self._open(coming, query, spread, units)
            except _Ended:
                self.attempt = None
        return self.opened[coming.number].entries

    def _open(self, coming: NextSum, query: _Query | None, spread: float, units: float) -> None:
        attempt = self.attempt
        if attempt is None:
            return
        if not attempt.keys:
            self._agreed_keys(attempt)
        agreed = self._all_agree(attempt, coming)
        total: masks.Words | None = None
        for name, (body, _) in self._each("sum", "the masked sum", attempt.number, coming.number).items():
            words = _words_in(body, agreed, name)
            if total is not None and len(total) != len(words):
                raise SitesError(f"{name} sent a sum of another size than the sites before it: stop the run.")
            total = words if total is None else total + words
        entries = masks.signed(total) if total is not None else np.zeros(0, dtype=np.int64)
        self._plausible(Opened(attempt.number, entries, ""), coming, query, spread, units)
        sent = self.post.send("opened", _encoded(entries), attempt.number, coming.number)
        self.opened.append(Opened(attempt.number, entries, sent))


class Journal(Protocol):
    """Records of one site that outlive its process."""

    def used(self) -> set[int]:
        """Return the attempts that a process of this site ever joined."""

    def join(self, attempt: int) -> None:
        """Record that this site joins an attempt."""

    def draw(self, number: int, history: str) -> None:
        """Record that this site draws for a sum after the sums with some digest."""

    def drawn(self) -> dict[int, str]:
        """Return the digest of the opened sums before each sum that this site drew for."""


class SiteExchange(_Exchange):
    """Sends a site's masked sums. `least` of `noise` is known, since it is a part of the roster."""

    def __init__(
        self, terms: RunTerms, post: Post, roster: str, patience: Patience, *, noise: SiteNoise, journal: Journal
    ) -> None:
        super().__init__(terms, post, roster, patience)
        self.noise, self.journal = noise, journal
        self.place = terms.sites.index(post.name)

    def _newest(self) -> int:
        """Return the newest attempt that the coordinator began."""
        started = (one for one in range(self.terms.attempts, 0, -1) if self.post.read("start", COORDINATOR, one))
        return next(started, 0)

    def _require_open(self) -> None:
        if self.attempt is not None and self._newest() > self.attempt.number:
            raise _Ended

    def give_up(self) -> None:
        """Drop the key of the present attempt, and let the others know that the attempt is lost."""
        attempt, self.attempt = self.attempt, None
        if attempt is not None:
            self.post.send("lost", {}, attempt.number)

    def _caught_up(self, attempt: int) -> int:
        """Read all sums that were opened up to an attempt, and return how many were opened before the attempt.

        A site that was started again finds its way by them. They are public, and cost nothing.
        """
        start = self.post.read("start", COORDINATOR, attempt)
        stated = read_history(self.post, [] if start is None else start[0])
        before = len(stated)
        while (more := read_opened(self.post, attempt, len(stated))) is not None:
            stated.append(more)
        shorter = len(stated) < len(self.opened)
        differs = any(one.digest != other.digest for one, other in zip(self.opened, stated, strict=False))
        if shorter or differs:
            raise SitesError(_OTHER_SUMS)
        self.opened = stated
        return before

    def _join(self, number: int) -> _Attempt | None:
        """Join the newest attempt, which no process of this site ever joined. None if a sum is open meanwhile."""
        newest = 0

        def what() -> str:
            begins = "which the coordinator begins by 'dpensemble sites run'"
            if newest == 0:
                return f"the first attempt, {begins}"
            stopped = f"{self.post.name} was stopped in attempt {newest}, which is lost"
            return f"attempt {newest + 1}, {begins}: {stopped}, and what was drawn stays charged"

        for _ in self._looks(what):
            newest = self._newest()
            if newest == 0:
                continue
            before = self._caught_up(newest)
            if number < len(self.opened):
                return None
            if newest not in self.journal.used() and self.post.read("key", self.post.name, newest) is None:
                break
            # The key of that attempt was in the memory of a process that ended, or this folder was restored.
            self.journal.join(newest)
            if self.post.read("lost", self.post.name, newest) is None:
                self.post.send("lost", {}, newest)
        if before < len(self.opened):
            raise SitesError(
                f"the coordinator opened a sum in attempt {newest}, in which this site took no part: nothing more is "
                "sent; ask the coordinator why."
            )
        # What an earlier process of this site knew, which a coordinator could deny: it would get all sums once more.
        if any(_history(self.opened, draws) != history for draws, history in self.journal.drawn().items()):
            raise SitesError(_OTHER_SUMS)
        # On the disk before the key is sent, so that no later process joins this attempt.
        self.journal.join(newest)
        attempt = _Attempt(newest, before, masks.new_key())
        history = [one.digest for one in self.opened]
        key = masks.public_bytes(attempt.key).hex()
        self.post.send("key", {"key": key, "roster": self.roster, "opened": history}, newest)
        self.attempt = attempt
        return attempt

    def open(
        self,
        coming: NextSum,
        query: _Query | None,
        spread: float,
        units: float,
        contribute: Callable[[], list[int]],
    ) -> NDArray[np.int64]:
        """Return an opened sum. If it is not opened yet, add this site's numbers, which `contribute` charges and draws.

        A failure ends the attempt for this site. Waiting does not.
        """
        while coming.number >= len(self.opened):
            try:
                attempt = self.attempt or self._join(coming.number)
                if attempt is None:
                    break
                if not attempt.keys:
                    self._agreed_keys(attempt)
                    self._require_own_key(attempt)
                opened = self._open(attempt, coming, contribute)
                self._plausible(opened, coming, query, spread, units)
                self.opened.append(opened)
            except _Ended:
                self.attempt = None
            except StillWaiting:
                raise
            except BaseException:
                self.give_up()
                raise
        return self.opened[coming.number].entries

    def _require_own_key(self, attempt: _Attempt) -> None:
        if attempt.keys[self.post.name] != masks.public_bytes(attempt.key):
            raise SitesError(
                f"another process of {self.post.name} joined attempt {attempt.number}: run one process for each site."
            )

    def _open(self, attempt: _Attempt, coming: NextSum, contribute: Callable[[], list[int]]) -> Opened:
        """Sign the transcript, wait for all signatures, contribute once, and wait for the sum."""
        number = coming.number
        if number not in attempt.signed:
            body = {"transcript": self._transcript(attempt, number), "about": coming.about, "centre": coming.centre}
            self.post.send("agree", body, attempt.number, number)
            attempt.signed.add(number)
        if number not in attempt.agreed:
            attempt.agreed[number] = self._all_agree(attempt, coming)
        if number not in attempt.sent:
            # Before the draw: a process that fails later never draws twice under one mask.
            attempt.sent.add(number)
            self.journal.draw(number, _history(self.opened, number))
            salt = hashlib.sha256(attempt.agreed[number].encode()).digest()
            words = masks.masked(contribute(), attempt.key, self.post.name, attempt.keys, salt)
            body = {"agreed": attempt.agreed[number], "words": _text(words.tobytes())}
            self.post.send("sum", body, attempt.number, number)
        for _ in self._looks(lambda: f"the opened sum {number + 1} of the coordinator"):
            opened = read_opened(self.post, attempt.number, number)
            if opened is not None:
                break
        return opened  # type: ignore[return-value]


def _history(opened: list[Opened], number: int) -> str:
    """Return the digest of the sums before one, if that many were opened."""
    return digest([one.digest for one in opened[:number]]) if len(opened) >= number else ""


def require_no_wrap(noise: SiteNoise, variance: int) -> None:
    """Raise if noise could make a sum modulo ``2**64`` wrap."""
    if _FAR * math.isqrt(noise.opened(variance)) >= 2**62:
        raise SitesError("epsilon is too small for sums modulo 2**64: use a larger epsilon or fewer rounds.")


def coming_sum(
    query: _Query | None, number: int, example: Floats | None = None, *, holds_back: bool = False
) -> NextSum:
    """Return the description of a sum that all sites must agree on.

    `example` is what a record that everybody knows would add, since sites may sum behind different maps. Without a
    query the numbers of units are opened: all, or those that are trained on and those that are held back.
    """
    if query is None:
        about = "the numbers of units that teach and that are held back" if holds_back else "the number of units"
        return NextSum(number, f"{about} of all sites", [])
    arrays = (*query.public_arrays, example)
    return NextSum(number, query.description, [part for one in arrays for part in _projections(one)])


def _projections(array: Floats | None) -> list[float]:
    """Return a few numbers that change with any entry of an array."""
    if array is None:
        return []
    flat = np.asarray(array, dtype=np.float64).ravel()
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(_PROJECTIONS, len(flat)))
    return [float(part) for part in (signs @ flat).tolist()] + [float(np.abs(flat).sum())]


def _alike(given: JSON, own: list[float]) -> bool:
    """Return whether another site's numbers about a centre are close to the own ones."""
    plain = isinstance(given, list) and len(given) == len(own) and all(isinstance(one, float) for one in given)
    if not plain or not own:
        return plain
    # The last number of an array is the sum of its entries without their signs.
    size = max(map(abs, own))
    return bool(np.allclose(given, own, rtol=0.0, atol=_ALIKE * size))


def _key_in(body: JSON, name: str) -> bytes:
    try:
        key = bytes.fromhex(body["key"])
        known = set(body) == {"key", "roster", "opened"} and len(key) == masks.KEY_BYTES
    except (KeyError, TypeError, ValueError):
        known = False
    if not known:
        raise SitesError(f"{name} sent a key that this version does not know: install the same version.")
    return key


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _encoded(entries: NDArray[np.int64]) -> str:
    return _text(entries.astype("<i8").tobytes())


def _numbers(text: JSON, dtype: str) -> NDArray[JSON] | None:
    """Return the numbers in a text, or None if it holds anything else."""
    if not isinstance(text, str):
        return None
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    if not 0 < len(content) <= 8 * _MOST_ENTRIES or len(content) % 8:
        return None
    return np.frombuffer(content, dtype=dtype)


def _words_in(body: JSON, agreed: str, name: str) -> masks.Words:
    words = _numbers(body.get("words"), "<u8") if isinstance(body, dict) else None
    if words is None or set(body) != {"words", "agreed"}:
        raise SitesError(f"{name} sent a masked sum that cannot be read: stop the run.")
    if body["agreed"] != agreed:
        raise SitesError(
            f"{name} masked its sum for other signatures than the coordinator has, so the masks do not cancel: what "
            "was drawn stays charged; stop the run and compare the folders."
        )
    return words.astype(np.uint64)


def read_opened(post: Post, attempt: int, number: int) -> Opened | None:
    """Return a sum that the coordinator opened, or None."""
    message = post.read("opened", COORDINATOR, attempt, number)
    if message is None:
        return None
    entries = _numbers(message[0], "<i8")
    if entries is None:
        raise SitesError("the coordinator sent an opened sum that cannot be read: stop the run.")
    return Opened(attempt, entries.astype(np.int64), message[1])


def read_history(post: Post, stated: JSON) -> list[Opened]:
    """Return the sums that the coordinator opened before an attempt, as the message that begins it states them."""
    history = []
    if not isinstance(stated, list) or len(stated) > 1000:
        stated = [None]
    for number, one in enumerate(stated):
        plain = isinstance(one, list) and len(one) == 2 and one[0] in range(1, 21)
        opened = read_opened(post, one[0], number) if plain else None
        if opened is None or opened.digest != one[1]:
            raise SitesError(
                f"the coordinator begins an attempt after sums that are not in the folder (the first is sum "
                f"{number + 1}): nothing is sent; get all messages of the coordinator again."
            )
        history.append(opened)
    return history


def total_units(entries: NDArray[np.int64], terms: RunTerms) -> list[int]:
    """Return the number of units of all sites that teach, and of those that are held back if there are any.

    Raise if they cannot be these numbers.
    """
    expected = 1 if terms.holdout_score is None else 2
    totals = list(map(int, entries.tolist()))
    possible = len(totals) == expected and totals[0] >= len(terms.sites) and min(totals) >= 0
    if not possible or sum(totals) > sum(terms.most_units):
        raise SitesError(
            "the number of units of all sites is impossible, so some site has more than the terms allow or sent "
            "something else: no noise was drawn; stop the run."
        )
    return totals


def read_sum(
    sums: SumReleaser,
    query: SumQuery[Outcome],
    entries: NDArray[np.int64],
    share: float,
    weight: float,
    shape: tuple[int, ...],
) -> Outcome:
    """Return the result of an opened sum whose exact sums have some shape."""
    if len(entries) != math.prod(shape):
        raise SitesError("an opened sum has another size than the sums of this site: install the same versions.")
    return sums.read_opened(query, entries.reshape(shape), share, weight=weight)


def exact_total(records: _Records, query: AnyQuery, number: int) -> tuple[BigIntegers, tuple[int, int]]:
    """Return the exact sum of a site, and what identifies its records. Private."""
    sums = records.sums(query, number)
    if sums.total is None:
        raise SitesError("this site has no records: leave the run.")
    return sums.total, sums.records
