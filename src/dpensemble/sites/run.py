"""A run of several sites in Python: its terms, its members, and the model that follows from the opened sums.

Every party computes the model. Sites and coordinator run the steps of `LabelMomentsClassifier`, and differ
only in where a noisy sum comes from.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from dpensemble._checks import printable, real_between
from dpensemble._entries import Rows
from dpensemble._files import JSON, read_json
from dpensemble._hide_private_rows import guard_private_rows
from dpensemble._same_code import other_versions, versions
from dpensemble._spending import unheard
from dpensemble._work import one_thread
from dpensemble.certificates import certificate_of_sites
from dpensemble.engine.run import require_account, run_steps
from dpensemble.errors import DataError, FileError, InvalidParameterError, file_errors
from dpensemble.guarantee import Budget, Guarantee
from dpensemble.quality.result import ReleasedQuality
from dpensemble.relations import Relation
from dpensemble.releases.parts import SiteSumsMeter, epsilon_at, larger_cost
from dpensemble.rows.checksums import RowChecksums
from dpensemble.sites.charges import Journal, Payer
from dpensemble.sites.exchange import (
    CoordinatorExchange,
    Patience,
    SiteExchange,
    coming_sum,
    total_units,
)
from dpensemble.sites.messages import (
    Folder,
    Post,
    SigningKey,
    SitesError,
    Transport,
    arrived,
    digest,
    file_name,
    fingerprint,
    first_of,
    require_cryptography,
)
from dpensemble.sites.sums import Shared
from dpensemble.sites.tables import PUBLIC_FILE, STUDENT, PartyTables, PublicRows
from dpensemble.sites.terms import COORDINATOR, RunTerms
from dpensemble.workflow.disk import replace_own_file
from dpensemble.workflow.table_files import TableFiles

_OWN, _JOURNAL = "party.json", "journal.jsonl"
#: Files of the result, in the own folder of a party.
CERTIFICATE, SUMMARY = "certificate.json", "summary.json"
_SOMEBODY = "somebody joined as {name} before: use the folder of then, or find out who, and agree on a new run."
_BEGUN = "own={own!r} holds a site that has begun an attempt, so its table stays: go on by run, or agree on a new run."
# What the guarantee of a run with held-back units assumes.
_HELD_BACK = (
    "Which units (or records) are held back follows from their places in the private table of a site and from the "
    "site's secret. The model learns nothing from them, and only a noisy histogram of the released model's "
    "probabilities for them is published.",
    "Neighbouring data sets list their units in the same order, each by its first record.",
)


class SiteRun:
    """A party of a run in which several sites train one model without showing records or sums to anybody.

    Each party has a folder of its own, and all parties exchange files in a folder of messages. Begin with `new` (the
    coordinator, who may be one of the sites), `join` (each site) or `load`.

    Parameters
    ----------
    messages : path or HTTPMessages
        Folder of messages, or the coordinator's service of such a folder.
    own : path
        Folder of this party. It holds the party's secret key. Never share it.

    Attributes
    ----------
    name : str
        Name of the site, or ``"coordinator"``.
    terms : RunTerms
        What the sites agree on.
    fingerprint : str
        Of this party's long-term key. Read it to the other sites by telephone.
    model_ : LabelMomentsClassifier, LabelMomentsRegressor, LabelMomentsSurvival or LifeTable
        The fitted model, after `run`.
    guarantee_ : Guarantee
        Privacy of the run, after `run`.
    certificate_ : dict
        What ``dpensemble verify`` checks, after `run`.
    quality_ : ReleasedQuality or None
        How good the model is on held-back units, after `run`, if the terms hold some back.
    where_ : str
        Where the result is, after `run`, and the curves of a life table or mean risks in sentences.

    Examples
    --------
    >>> hospital = SiteRun.join("shared", "own", name="north", private="patients.csv")  # doctest: +SKIP
    >>> hospital.trust({"south": "1f2e-...", "west": "9a0b-..."})  # doctest: +SKIP
    >>> hospital.run(private="patients.csv").model_.predict(rows)  # doctest: +SKIP
    """

    model_: Rows
    guarantee_: Guarantee
    certificate_: dict[str, JSON]
    where_: str

    def __init__(self, messages: Path | str | Transport, own: Path | str) -> None:
        require_cryptography()
        self._own = Path(own)
        self._transport = _transport(messages, self._own)
        party = self._party()
        self.name: str = party["name"]
        self._key = SigningKey(bytes.fromhex(party["secret"]))
        self.terms, self._terms_digest, coordinator = _terms_in(self._transport)
        if party["terms"] != self._terms_digest:
            raise SitesError(
                "the terms of the run are not those that this party joined: stop, and ask the coordinator why."
            )
        self.fingerprint = fingerprint(self._key.public)
        self._post = Post(self._transport, self.terms.run, self.name, self._key)
        self._post.keys[COORDINATOR] = coordinator
        self._journal = Journal(self._own / _JOURNAL, self._bound)
        self._exchange: SiteExchange | CoordinatorExchange | None = None
        self._tables = PartyTables.of(self.terms, self._transport, self._own)
        self._payer: Payer
        self.quality_: ReleasedQuality | None = None

    @classmethod
    def new(
        cls,
        messages: Path | str | Transport,
        own: Path | str,
        *,
        public: Path | str | pd.DataFrame | None = None,
        declared_columns: Path | str | Mapping[str, Sequence[JSON]] | None = None,
        sites: Sequence[str],
        target: str,
        **settings: JSON,
    ) -> SiteRun:
        """Write the terms of a new run, and public rows if there are any, for all sites. Return the coordinator.

        Parameters
        ----------
        messages, own
            As for `SiteRun`.
        public : path or DataFrame, optional
            Public rows with the columns of the private tables. The target may be missing. All sites get a copy in CSV.
        declared_columns : path or mapping, optional
            The range or the categories of each column, if no rows are public: a mapping as for
            `LabelMomentsClassifier`, or a file of JSON. The terms contain them. They must not depend on private rows.
        sites, target, **settings
            As for `RunTerms`: `classes`, the `range` of a number, or `times` are among them.
        """
        require_cryptography()
        transport = _transport(messages, Path(own))
        if arrived(transport, file_name("terms", COORDINATOR), 2**30) is not None:
            raise FileError("messages already hold the terms of a run: use an empty folder for each run.")
        content = None if public is None else _public_bytes(public)
        given = {"sites": sites, "target": target, **settings}
        columns = _declared(declared_columns, given)
        terms = RunTerms.of(public=content, declared_columns=columns, **given)
        secret = SigningKey.new_secret()
        key = SigningKey(secret)
        post = Post(transport, terms.run, COORDINATOR, key)
        _new_folder(Path(own))
        if content is not None:
            transport.put(PUBLIC_FILE, content)
        # Terms whose public rows cannot be used are refused before there are terms.
        PartyTables.of(terms, transport, Path(own)).public()
        body = {"terms": terms.to_dict(), "key": key.public.hex()}
        _write_party(Path(own), {"name": COORDINATOR, "secret": secret.hex(), "terms": digest(body)})
        post.send("terms", body)
        return cls(transport, own)

    @classmethod
    def join(
        cls,
        messages: Path | str | Transport,
        own: Path | str,
        *,
        name: str,
        private: Path | str,
        least: float = 0.0,
    ) -> SiteRun:
        """Check the private table by the terms, make a long-term key, and send its public part. Return the site.

        A site that has not begun an attempt may join again from the same folder, with another table. The key and the
        message stay, and nothing is sent. `check` reads a table before anything is sent.

        Parameters
        ----------
        messages, own
            As for `SiteRun`.
        name : str
            Name of the site in the terms.
        private : path
            Table of private records: CSV, Excel or Parquet.
        least : float, default=0.0
            Least share of the charged noise variance, from 0 to 1, that this site draws itself. With 1 the site relies
            on no other site, and the model gets noisier.
        """
        least = real_between("least", least, 0.0, 1.0)
        transport, _, terms_digest, begun, sent = _joining(messages, Path(own), name)
        if sent is not None:
            return cls(transport, own)._join_again(sent, Path(private), least)
        secret, row_key = SigningKey.new_secret(), secrets.token_hex(32)
        party = {"name": name, "secret": secret.hex(), "terms": terms_digest, "row_key": row_key, "trusted": {}} | begun
        _write_party(Path(own), party, replacing=bool(begun))
        try:
            run = cls(transport, own)
            run._tables.read_private(Path(private), bytes.fromhex(row_key))
            _write_party(Path(own), party | {"records": run._identity()}, replacing=True)
        except BaseException:
            # Nothing was sent, so that the name is free.
            (Path(own) / _OWN).unlink(missing_ok=True)
            raise
        body = {"key": run._key.public.hex(), "least": least, "terms": terms_digest, "versions": versions()}
        run._post.send("join", body)
        return run

    @classmethod
    def check(cls, messages: Path | str | Transport, own: Path | str, *, name: str, private: Path | str) -> PartyTables:
        """Read the private table as `join` does, but make no key and send nothing.

        Parameters
        ----------
        messages, own, name, private
            As for `join`.

        Returns
        -------
        PartyTables
            What was read. It has `files` and `counts_of_records`, as a `SiteRun`. For the site only.
        """
        transport, terms, _, begun, _ = _joining(messages, Path(own), name)
        _make_folder(Path(own))
        tables = PartyTables.of(terms, transport, Path(own))
        # Which units are held back changes no count.
        tables.read_private(Path(private), bytes.fromhex(begun.get("row_key", "")))
        return tables

    @classmethod
    def load(cls, messages: Path | str | Transport, own: Path | str) -> SiteRun:
        """Return a party of a run whose folder exists."""
        return cls(messages, own)

    @staticmethod
    def files_of_result(own: Path) -> list[str] | None:
        """Return the files of the result in the own folder of a party, or None if the folder is not of a party."""
        if not (own / _OWN).exists():
            return None
        files = (STUDENT, CERTIFICATE, SUMMARY)
        return [file for file in files if (own / file).exists()] if (own / SUMMARY).exists() else []

    def trust(self, fingerprints: Mapping[str, str]) -> None:
        """Store fingerprints that other sites stated without the coordinator, for example by telephone."""
        for name in fingerprints:
            if name not in self.terms.sites or name == self.name:
                raise InvalidParameterError(
                    f"fingerprints names {printable(str(name))!r}, which is not another site of this run.",
                    parameter="fingerprints",
                )
        party = self._party()
        tidy = {name: str(value).strip().lower() for name, value in fingerprints.items()}
        _write_party(self._own, party | {"trusted": {**party.get("trusted", {}), **tidy}}, replacing=True)

    def files(self, private: Path | str) -> TableFiles:
        """Return how a table of private records with features is read by the terms."""
        return self._tables.files(Path(private))

    def counts_of_records(self) -> dict[str, int]:
        """Return how many records the site read at `join` or `run`, and how many are bad. For the site only."""
        return self._tables.counts_of_records()

    def run(
        self,
        private: Path | str | None = None,
        *,
        ledger: JSON = None,
        patience: float | None = None,
        on_wait: Callable[[str], None] = lambda _: None,
    ) -> SiteRun:
        """Take part until the model is there, and write it into the own folder.

        The secret key of an attempt is in the memory of this process only. If the process ends, the attempt is lost.

        Parameters
        ----------
        private : path, optional
            The site's table, the same as for `join`. The coordinator has none.
        ledger : LedgerAccount, optional
            Account of the site's data set, which is charged before noise is drawn, and may refuse.
        patience : float, optional
            Seconds to wait for others. By default there is no limit.
        on_wait : callable, optional
            Gets a sentence when this party waits for another one.

        Raises
        ------
        StillWaiting
            When the patience is over. Call `run` again to go on.
        SitesError
            If the run cannot go on. What was drawn stays charged.
        """
        if (private is None) is not (self.name == COORDINATOR):
            needed = "the coordinator has no records" if private is not None else "give the site's table of records"
            raise InvalidParameterError(f"private={private!r} cannot be right: {needed}.", parameter="private")
        require_account(ledger)
        waiting = Patience(patience, on_wait)
        with guard_private_rows(), one_thread(), unheard():
            if private is not None and self._tables.site is None:
                self._tables.read_private(Path(private), bytes.fromhex(self._party()["row_key"]))
                self._require_same_records()
            public = self._tables.public()
            exchange = self._begin(waiting, ledger)
            self._fit(public, exchange)
        return self

    # What follows is not public.

    def _join_again(self, sent: bytes, private: Path, least: float) -> SiteRun:
        """Read another table in place of that of `join`, before the first attempt. Nothing is sent."""
        body, public, _ = first_of(sent, "join", lambda body: bytes.fromhex(body["key"]), self.name)
        if public != self._key.public:
            raise SitesError(_SOMEBODY.format(name=self.name))
        if body["least"] != least:
            raise InvalidParameterError(
                f"least={least:g} is not what this site sent when it joined: give least={body['least']:g}, or agree on "
                "a new run.",
                parameter="least",
            )
        # An own folder that was restored may have lost its journal.
        if any(self._post.read("key", self.name, one) for one in range(1, self.terms.attempts + 1)):
            raise FileError(_BEGUN.format(own=str(self._own)))
        party = self._party()
        self._tables.read_private(private, bytes.fromhex(party["row_key"]))
        # In one step: a process that ends before it leaves the table of before.
        _write_party(self._own, party | {"records": self._identity()}, replacing=True)
        return self

    def _party(self) -> dict[str, JSON]:
        path = self._own / _OWN
        try:
            party = read_json(path, lambda reason: FileError(f"{path} cannot be read ({reason}): restore the file."))
        except FileNotFoundError:
            raise FileError(f"own={str(self._own)!r} holds no party of a run: begin with new or join.") from None
        if not isinstance(party, dict) or not {"name", "secret", "terms"} <= set(party):
            raise FileError(f"{path} is damaged: restore the file.")
        return party

    def _identity(self) -> str:
        """Return a keyed digest of the site's records, for its own folder. Private."""
        site = self._tables.site
        if site is None:
            raise DataError("there are no private records.")
        checksums = RowChecksums(bytes.fromhex(self._party()["row_key"]))
        sums = [checksums.of(rows, targets) % 2**128 for rows, targets in site.read]
        return digest([sums, [len(block.targets) for block in site.blocks], site.counts])

    def _require_same_records(self) -> None:
        # What the first attempt bound counts, even if another process joined again meanwhile.
        bound = self._journal.records
        if (bound or self._party().get("records")) != self._identity():
            again = "agree on a new run" if self._journal.begun else "join again from the same folder"
            raise DataError(
                "the private records changed since this site joined, so nothing was sent: give the table of join, or "
                f"{again}."
            )

    def _bound(self) -> str:
        """Return what identifies the records. The first attempt binds the site to it. Raise for other records."""
        self._require_same_records()
        return self._identity()

    def _members(self, waiting: Patience) -> tuple[str, tuple[float, ...]]:
        """Wait for all sites, and return the digest of terms and members, and the least noise of each site."""
        joined: dict[str, tuple[str, float]] = {}
        for _ in waiting.looks(lambda: f"{self.name} is waiting for {_missing(self.terms.sites, joined)} to join."):
            for name in self.terms.sites:
                content = arrived(self._transport, file_name("join", name), 2**16)
                if name in joined or content is None:
                    continue
                body, public, run = first_of(content, "join", lambda body: bytes.fromhex(body["key"]), name)
                joined[name] = self._joined(name, body, run), body["least"]
                self._post.keys[name] = public
            if len(joined) == len(self.terms.sites):
                break
        if self._post.keys[self.name] != self._key.public or len(set(self._post.keys.values())) <= len(joined):
            raise SitesError(
                "two parties have one key, or somebody else joined under the name of this site: agree on a new run."
            )
        members = {name: joined[name][0] for name in self.terms.sites}
        return digest([self._terms_digest, members]), tuple(joined[name][1] for name in self.terms.sites)

    def _joined(self, name: str, body: JSON, run: str) -> str:
        """Return the digest of a site's message that it joins, or raise if it joins another run."""
        plain = set(body) == {"key", "least", "terms", "versions"} and isinstance(body["least"], float)
        if not plain or not 0 <= body["least"] <= 1:
            raise SitesError(f"{name} joined by a message that this version does not know: install the same version.")
        if run != self.terms.run or body["terms"] != self._terms_digest:
            raise SitesError(
                f"{name} joined other terms than {self.name}: compare the folders, and agree on a new run."
            )
        if body["versions"] != self.terms.versions:
            raise SitesError(f"{name} has other versions than the terms state: install the same versions at all sites.")
        return digest(body)

    def _begin(self, waiting: Patience, ledger: JSON) -> SiteExchange | CoordinatorExchange:
        """Return the exchange after all sites approved the members."""
        if self._exchange is not None:
            self._exchange.patience = waiting
            return self._exchange
        roster, least = self._members(waiting)
        if self.name != COORDINATOR:
            self._require_trusted()
            self._post.send("approve", {"roster": roster})
        approved: dict[str, JSON] = {}
        for _ in waiting.looks(
            lambda: f"{self.name} is waiting for {_missing(self.terms.sites, approved)} to approve."
        ):
            for name in self.terms.sites:
                message = self._post.read("approve", name)
                if message is not None:
                    approved[name] = message[0]
            if len(approved) == len(self.terms.sites):
                break
        for name, body in approved.items():
            if body != {"roster": roster}:
                raise SitesError(
                    f"{name} approved other members than {self.name} sees, so somebody showed them different messages: "
                    "nothing was drawn; compare the fingerprints of all sites again."
                )
        noise = self.terms.noise(least)
        if self.name == COORDINATOR:
            coordinator = CoordinatorExchange(self.terms, self._post, roster, waiting)
            coordinator.noise = noise
            coordinator.resume()
            self._exchange = coordinator
        else:
            self._exchange = SiteExchange(self.terms, self._post, roster, waiting, noise=noise, journal=self._journal)
        self._payer = Payer(self._exchange, self._journal, ledger)
        return self._exchange

    def _require_trusted(self) -> None:
        """Raise if a site was not approved by the fingerprint of its key."""
        trusted = self._party().get("trusted", {})
        for name in self.terms.sites:
            if name == self.name:
                continue
            own = fingerprint(self._post.keys[name])
            if name not in trusted:
                raise SitesError(
                    f"{name} is not approved yet: ask {name} for its fingerprint by telephone, and trust {name} if it "
                    f"is {own}."
                )
            if trusted[name] != own:
                raise SitesError(
                    f"the key of {name} in the folder has another fingerprint than was stored here, by a typing error "
                    f"or because somebody may pretend to be {name}: nothing was sent; ask {name} again by telephone, "
                    f"and replace the stored one by --trust {name}=FINGERPRINT."
                )

    def _fit(self, public: PublicRows, exchange: SiteExchange | CoordinatorExchange) -> None:
        """Open the number of units and all sums, and store what follows from them."""
        n_units, most, layout = None, sum(self.terms.most_units), None
        if Relation(self.terms.relation) is Relation.REPLACE_ONE:
            n_units, *n_held = self._count(exchange)
            most = n_units
            layout = self._tables.layout(public, n_held[0], exchange.noise) if n_held else None
        shared = Shared(exchange, self._payer, public.example, float(most))
        method = public.method
        method.result_ = run_steps(self._tables.steps(public, n_units, shared))
        if layout is not None:
            held = None if self._tables.site is None else self._tables.site.held
            self.quality_ = ReleasedQuality.of_histograms(shared.quality(method.model_, public.table, layout, held))
        if public.rows is not None:
            public.rows.publish(method)
        # The last key of this process.
        exchange.attempt = None
        self._store(method, exchange)
        self.where_ = "\n".join([*self._quality_in_words(), self._tables.write(public, n_units)])
        replace_own_file(self._own / CERTIFICATE, json.dumps(self.certificate_, separators=(",", ":")) + "\n")
        replace_own_file(self._own / SUMMARY, json.dumps(self.summary(), indent=2) + "\n")

    def _count(self, exchange: SiteExchange | CoordinatorExchange) -> list[int]:
        """Open the number of units of all sites, which is public when a unit is replaced, and of held-back ones."""
        coming = coming_sum(None, 0, holds_back=self.terms.holdout_score is not None)
        site = self._tables.site
        own = [] if site is None else site.counts
        return total_units(exchange.open(coming, None, 0.0, 0.0, lambda: own), self.terms)

    def _store(self, method: Rows, exchange: SiteExchange | CoordinatorExchange) -> None:
        """Keep the model, its guarantee and its certificate."""
        payer = self._payer
        charges = payer.public_charges()
        meter = SiteSumsMeter(self.terms.budget, self.terms.attempts)
        meter.charge_again(charges)
        held = SiteSumsMeter(self.terms.budget, self.terms.attempts)
        of_held = payer.public_charges(of_held=True)
        held.charge_again(of_held)
        cost, noise = larger_cost(meter.cost(), held.cost()), exchange.noise
        epsilon = max(epsilon_at(cost, self.terms.delta), 1e-9)
        budgets = {1: Budget(epsilon=min(epsilon * (1 + 1e-9), 1e12), delta=self.terms.delta)}
        at = self.terms.at_sites
        if at > 1:
            several = epsilon_at(cost, self.terms.delta, sites=at)
            budgets[at] = Budget(epsilon=several * (1 + 1e-9), delta=self.terms.delta)
        words = [
            f"At most {noise.colluding} of the {noise.n_sites} sites show what they know to each other or to the "
            "coordinator, and the other sites follow the protocol. If all sites do, the Gaussian privacy of what is "
            f"published is {noise.factor(noise.n_sites):.3f} times that of this guarantee.",
            f"A person with records at one site is protected at epsilon {budgets[1].epsilon:.4g}"
            + ("." if at == 1 else f", and a person with records at {at} sites at epsilon {budgets[at].epsilon:.4g}."),
        ]
        stated = method.result_.guarantee
        assumptions = (*words, *(_HELD_BACK if of_held else ()), *stated.assumptions)
        guarantee = replace(
            stated,
            epsilon=epsilon,
            assumptions=assumptions,
            accounting=f"{meter.accounting}, in parts at {noise.n_sites} sites",
            groups=(),
            delta_rule="given",
        )
        method.result_ = replace(method.result_, guarantee=guarantee, charges=tuple(charges))
        self.model_, self.guarantee_ = method, guarantee
        certificate = certificate_of_sites(noise, budgets, charges, of_held)
        self.certificate_ = certificate | {"for_release": bool(guarantee.for_release)}

    def _quality_in_words(self) -> list[str]:
        if self.quality_ is None:
            return []
        figures = self.quality_.to_dict()
        named = {"accuracy": "accuracy", "auroc": "area under the curve"}
        intervals = [
            f"{words} {figures[name + '_low']:.3f} to {figures[name + '_high']:.3f}"
            for name, words in named.items()
            if figures[name + "_low"] is not None
        ]
        return [f"On {figures['units']:,} held-back units: {', '.join(intervals)}. Intervals include the noise."]

    def summary(self) -> dict[str, JSON]:
        """Return public facts about the finished run as plain values."""
        drift = self.model_.result_.drift
        statistics = [
            {"title": one.table.title, "rows": [list(row) for row in one.table.rows]}
            for one in self.model_.result_.releases
            if one.table is not None
        ]
        return {
            "sites": list(self.terms.sites),
            "guarantee": self.guarantee_.to_dict(),
            "sums": len(self.model_.result_.releases),
            "drift": None if drift is None else {"alarm": bool(drift.alarm), "undecided": bool(drift.undecided)},
            "statistics": statistics,
            **({} if self.quality_ is None else {"quality": self.quality_.to_dict()}),
            **self._tables.facts(self.model_),
        }

    def status(self) -> dict[str, JSON]:
        """Return what this party sees in the folder of messages, without reading records."""
        seen = {name: fingerprint(public) for name in self.terms.sites if (public := self._seen_key(name)) is not None}
        approved = [name for name in seen if self._post.read("approve", name) is not None]
        attempts = [one for one in range(1, self.terms.attempts + 1) if self._post.read("start", COORDINATOR, one)]
        now = attempts[-1] if attempts else 0
        opened = 0
        while now and any(self._post.read("opened", COORDINATOR, one, opened) for one in attempts):
            opened += 1
        lost = {one: [name for name in seen if self._post.read("lost", name, one) is not None] for one in attempts}
        trusted = self._party().get("trusted", {})
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "terms": self.terms.words(),
            "joined": seen,
            "trusted": sorted(name for name, own in seen.items() if trusted.get(name) == own),
            "approved": approved,
            "attempts": len(attempts),
            "most_attempts": self.terms.attempts,
            "opened_sums": opened,
            "lost": {str(one): names for one, names in lost.items() if names},
            "charges": self._journal.charges(),
            "done": (self._own / SUMMARY).exists(),
            "problems": list(self._post.problems.values()),
        }

    def _seen_key(self, name: str) -> bytes | None:
        try:
            content = arrived(self._transport, file_name("join", name), 2**16)
            if content is None:
                return None
            _, public, _ = first_of(content, "join", lambda body: bytes.fromhex(body["key"]), name)
        except FileError as error:
            self._post.problems[file_name("join", name)] = str(error)
            return None
        self._post.keys[name] = public
        return public


def _transport(messages: Path | str | Transport, own: Path) -> Transport:
    """Return what carries the messages. Raise if secrets would lie in a folder that others see."""
    if not isinstance(messages, str | Path):
        return messages
    if "://" in str(messages):
        raise InvalidParameterError(
            f"messages={str(messages)!r} is an address: give HTTPMessages(address, key).", parameter="messages"
        )
    _require_apart(Path(messages), own)
    return Folder(Path(messages))


def _require_apart(messages: Path, own: Path) -> None:
    """Raise if secrets would lie in the folder that others see, or the other way round."""
    shared, secret = messages.absolute().resolve(), own.absolute().resolve()
    if shared == secret or shared in secret.parents or secret in shared.parents:
        raise InvalidParameterError(
            f"own={str(own)!r} must be a folder apart from messages={str(messages)!r}, since it holds a secret key.",
            parameter="own",
        )
    if not shared.is_dir():
        raise FileError(f"messages={str(messages)!r} must be a folder that exists.")


def _write_party(own: Path, party: dict[str, JSON], *, replacing: bool = False) -> None:
    if not replacing:
        _new_folder(own)
    with file_errors(lambda reason: f"own={str(own)!r} cannot be written ({reason}): choose another folder."):
        replace_own_file(own / _OWN, json.dumps(party) + "\n")


def _make_folder(own: Path) -> None:
    with file_errors(lambda reason: f"own={str(own)!r} cannot be written ({reason}): choose another folder."):
        own.mkdir(mode=0o700, parents=True, exist_ok=True)


def _new_folder(own: Path) -> None:
    """Make the folder of a new party, which may be there without a key."""
    _make_folder(own)
    if (own / _OWN).exists():
        raise FileError(f"own={str(own)!r} holds the key of a party already: use another folder.")


def _joining(
    messages: Path | str | Transport, own: Path, name: str
) -> tuple[Transport, RunTerms, str, dict[str, JSON], bytes | None]:
    """Return what a site needs to join: messages, terms and their digest, and the key and message of before.

    Raise if the site cannot join.
    """
    require_cryptography()
    transport = _transport(messages, own)
    terms, terms_digest, _ = _terms_in(transport)
    if name not in terms.sites:
        raise InvalidParameterError(
            f"name={printable(str(name))!r} is not a site of this run: use one of {', '.join(terms.sites)}.",
            parameter="name",
        )
    unlike = other_versions(terms.versions)
    if unlike:
        raise SitesError(f"this site has {unlike}: install the same versions at all sites, or agree on a new run.")
    begun = _begun(own, {"name": name, "terms": terms_digest})
    sent = arrived(transport, file_name("join", name), 2**30)
    if sent is not None and not begun:
        raise SitesError(_SOMEBODY.format(name=name))
    return transport, terms, terms_digest, begun, sent


def _begun(own: Path, wanted: dict[str, JSON]) -> dict[str, JSON]:
    """Return the keys of a site that began to join, or joined, and that has not begun an attempt."""
    path = own / _OWN
    if not path.exists():
        return {}
    party = read_json(path, lambda reason: FileError(f"{path} cannot be read ({reason}): use another folder."))
    plain = isinstance(party, dict) and {"name", "secret", "terms", "row_key"} <= set(party)
    if not plain or any(party[name] != value for name, value in wanted.items()):
        raise FileError(f"own={str(own)!r} holds the key of a party already: use another folder, or go on by run.")
    if Journal(own / _JOURNAL).begun:
        raise FileError(_BEGUN.format(own=str(own)))
    return {name: party[name] for name in ("secret", "row_key")}


def _terms_in(transport: Transport) -> tuple[RunTerms, str, bytes]:
    """Return the terms, the digest of their message, and the coordinator's key."""
    content = arrived(transport, file_name("terms", COORDINATOR), 2**20)
    if content is None:
        raise FileError("messages hold no terms of a run: get the coordinator's files first.")
    body, public, run = first_of(content, "terms", lambda body: bytes.fromhex(body["key"]), COORDINATOR)
    if set(body) != {"terms", "key"}:
        raise FileError("the terms of the run are of another version: install the same version of dpensemble.")
    terms = RunTerms.from_dict(body["terms"])
    if terms.run != run:
        raise FileError("the terms of the run name another run: get the coordinator's files again.")
    return terms, digest(body), public


def _public_bytes(public: Path | str | pd.DataFrame) -> bytes:
    """Return public rows in CSV."""
    if isinstance(public, pd.DataFrame):
        return public.to_csv(index=False).encode()
    path = Path(public)
    if path.suffix.lower() == ".csv":
        with file_errors(lambda reason: f"public={str(public)!r} cannot be read ({reason}): give another file."):
            return path.read_bytes()
    files = TableFiles(private=path, public=path, target="", classes=["a", "b"])
    return files.read(path, guess=True).to_csv(index=False).encode()


def _declared(
    columns: Path | str | Mapping[str, Sequence[JSON]] | None, given: Mapping[str, JSON]
) -> Mapping[str, Sequence[JSON]] | None:
    """Return declared columns that are features, from a file or as they are given."""
    if columns is None or isinstance(columns, Mapping):
        return columns
    path = Path(columns)
    files = TableFiles(
        private=path,
        public=None,
        declared_columns=path,
        target=given["target"],
        unit=given.get("unit"),
        drop=given.get("drop") or (),
    )
    return files.declared_features()


def _missing(sites: Sequence[str], there: Mapping[str, JSON]) -> str:
    return ", ".join(name for name in sites if name not in there)
