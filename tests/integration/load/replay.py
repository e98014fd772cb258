"""The specification of admission, fed with what a witness saw the store do: the same requests, order and times."""

from collections import Counter
from collections.abc import Mapping

import msgspec

from gateway.admission.codec import BUDGET_PLACE
from gateway.policy.admission import Acquire, Ending, Progress, Row, Seed, Settle, Sign, Switch
from gateway.policy.answers import Granted, Queued, Refused, Unseeded
from gateway.policy.charges import Dimension
from gateway.policy.claims import place_of
from gateway.policy.leases import Buckets
from tests.integration.admission.state import Charges
from tests.integration.load.witness import PREFIX, Run, doubles, estimate_of, places_of


class Replay:
    """The specification's state, and what came of each request. `settled_ms` tells the store's time at each end."""

    def __init__(self, settled_ms: Mapping[str, int]) -> None:
        self.buckets = Buckets(lambda _: None)
        self.charges: Charges = {}
        self.admitted_ms: dict[str, int] = {}
        """Every request that asked, with the time of its verdict."""
        self.granted: set[str] = set()
        self.rows: set[str] = set()
        """Every request that has a row: it was granted, or its client left the queue."""
        self.refused: Counter[Dimension] = Counter()
        self._settled_ms = settled_ms

    def take(self, run: Run) -> None:
        """Have the specification do what the store did, and see that it comes to the same, to the unit."""
        match run.script:
            case "acquire":
                self._acquire(run)
            case "switch":
                self._switch(run)
            case "settle":
                self._settle(run)
            case "progress":
                self._progress(run)
            case "confirm":
                self._confirm(run)
            case "tick":
                self.buckets.tick([word.decode() for word in run.arguments[2:]], run.looked_ms)
            case _:
                self._seed(run)
        for place, bucket in run.buckets():
            assert self.buckets.buckets[place] == bucket, (run, place)

    def _settle(self, run: Run) -> None:
        capacity, certain = run.arguments[1] == b"1", run.arguments[4] == b"1"
        settle = Settle(run.lease_id, capacity, estimate_of(run.arguments[2]), b"", certain, ending_of(run.arguments[5]))
        posted = self.buckets.settle(settle, self._settled_ms[run.lease_id])
        if posted.opened:
            self.rows.add(run.lease_id)
        assert [b"settled%d" % posted.opened] == [words[2] for words in run.commands if words[:2] == [b"SET", run.keys[3]]]

    def _acquire(self, run: Run) -> None:
        lease_id = run.lease_id
        asked = Acquire(lease_id, self._rows(run), int(run.arguments[1]), b"", run.wait())
        verdict = self.buckets.acquire(asked, run.looked_ms)
        assert isinstance(verdict, Granted | Queued) == (lease_id in run.renewed()), (verdict, run)
        if isinstance(verdict, Unseeded):
            return  # it is asked again
        assert isinstance(verdict, Granted | Refused | Queued)
        self.admitted_ms[lease_id] = run.looked_ms
        if isinstance(verdict, Granted):
            self.granted.add(lease_id)
        self.refused.update(refusal.charge.dimension for refusal in verdict.refusals)

    def _switch(self, run: Run) -> None:
        lease_id = run.lease_id
        switch = Switch(lease_id, ending_of(run.arguments[2]), self._rows(run), int(run.arguments[1]), run.wait())
        verdict = self.buckets.switch(switch, run.looked_ms)
        if lease_id not in self.granted:  # it has waited so far, and this is its verdict
            assert isinstance(verdict, Granted | Refused | Queued)
            self.admitted_ms[lease_id] = run.looked_ms
            self.refused.update(refusal.charge.dimension for refusal in verdict.refusals)
            if isinstance(verdict, Granted):
                self.granted.add(lease_id)

    def _seed(self, run: Run) -> None:
        for key, word in zip(run.keys[2:], run.arguments[1:], strict=True):
            spent, at_ms, _ = doubles(word)
            scope = key.removeprefix(PREFIX).decode()
            charge = self.charges[scope, places_of(scope)[BUDGET_PLACE]]
            self.buckets.seed([Seed(charge, at_ms, spent)])

    def _confirm(self, run: Run) -> None:
        lease_id = run.lease_id
        for expiry_ms in run.renewed().values():  # a turn that has not come changes nothing
            now_ms = expiry_ms - self.buckets.leases[lease_id].ttl_ms
            assert isinstance(self.buckets.confirm(lease_id, now_ms), Granted)
            self.admitted_ms[lease_id] = now_ms
            self.granted.add(lease_id)

    def _progress(self, run: Run) -> None:
        ids = [key.removeprefix(PREFIX + b"lease:").decode() for key in run.keys[2:]]
        reports = [Progress(lease_id, estimate_of(word)) for lease_id, word in zip(ids, run.arguments[1:], strict=True)]
        for lease_id, expiry_ms in list(run.renewed().items())[:1]:  # without a lease that lives nothing happens
            self.buckets.progress(reports, expiry_ms - self.buckets.leases[lease_id].ttl_ms)

    def _rows(self, run: Run) -> tuple[Row, ...]:
        rows = run.rows()
        self.charges.update((place_of(charge), charge) for row in rows for charge in row.charges)
        return rows


def ending_of(word: bytes) -> Ending:
    """Return how an attempt ended; the figures behind its own are the terms, which are the same everywhere."""
    hint_ms, dice, exhausted_ms, *_ = msgspec.msgpack.decode(word[2:])
    return Ending(Sign(int(word[1:2])), hint_ms, dice, exhausted_ms)
