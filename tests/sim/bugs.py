"""Faults that were made on purpose: each changes one place of the gateway, and the simulation has to find it.

Those of the scripts are found by comparing them with the specification, those of the rules by the laws, those of the corridor by
a test of its own.
"""

from collections.abc import Callable
from enum import Enum

from gateway.admission.scripts import read_part
from tests.mutant import Mutant


class Judge(Enum):
    """Who has to find a fault."""

    COMPARISON = "scripts against the specification"
    LAWS = "laws of the specification"
    TEST = "a test"


class Bug(Mutant, frozen=True):
    """A fault and who has to find it. `test` names the test that has to fail, where that is the judge."""

    judge: Judge = Judge.COMPARISON
    test: str = ""

    @property
    def part(self) -> str:
        """Return the name of the script's part that it is in."""
        return self.file.rpartition("/")[2].removesuffix(".lua")

    def read(self) -> Callable[[str], str]:
        """Return a reader of the scripts' parts that has the fault in them."""
        faulty = self.make(read_part(self.part))
        return lambda name: faulty if name == self.part else read_part(name)


def script(name: str, part: str, old: str, new: str) -> Bug:
    return Bug(name, f"gateway/admission/{part}.lua", old, new)


BUGS = (
    script(
        "write on reject",
        "serve",
        "    for i = 1, 4 do refusals[#refusals + 1] = refusal[i] end\n",
        "    for i = 1, 4 do refusals[#refusals + 1] = refusal[i] end\n    hold(opened[1], asked.row[1][FIRST], 1)\n",
    ),
    script(
        "streak never reset",
        "queue",
        "    pool.touched, pool.streak = pool.touched or pool.streak ~= 0, 0\n",
        "    pool.touched = true\n",
    ),
    script("ceiling without max(1)", "upstreams", "return max(1, floor(", "return (floor("),
    script("missing tombstone", "settle", "call('SET', KEYS[4], 'settled' .. opened, 'PX', keep_ms)\n", ""),
    script(
        "model hold not swapped on SWITCH",
        "claims",
        "if claim.scope then hold(",
        "if claim.scope and claim.group[REACH] ~= 1 then hold(",
    ),
    script("a shadow refuses", "rows", " and group[c + ENDS] ~= SHADOW then", " then"),
    script(
        "a shadow takes more than it holds",
        "ends",
        "group[c + ENDS] == SHADOW and group[c + CAPACITY] * period or MOST",
        "MOST",
    ),
    script(
        "hash expired under holds", "core", "if scope.touched and scope[LEASES] == 0 then call(", "if scope.touched then call("
    ),
    Bug(
        "flex charged",
        "gateway/policy/tiers.py",
        "SPENDS_NO_RATES = frozenset({Tier.NO_LIMIT, Tier.OVER_LIMIT, Tier.FLEX})",
        "SPENDS_NO_RATES = frozenset({Tier.NO_LIMIT, Tier.OVER_LIMIT})",
        Judge.LAWS,
    ),
    Bug(
        "over-limit charged",
        "gateway/policy/tiers.py",
        "SPENDS_NO_RATES = frozenset({Tier.NO_LIMIT, Tier.OVER_LIMIT, Tier.FLEX})",
        "SPENDS_NO_RATES = frozenset({Tier.NO_LIMIT, Tier.FLEX})",
        Judge.LAWS,
    ),
    script(
        "dispatch ignores cooldown",
        "queue",
        "    if not refusal_of(found[1], asked, opened, prior, {}) then",
        "    local kept = room.bar\n"
        "    room.bar = function() end\n"
        "    local refused = refusal_of(found[1], asked, opened, prior, {})\n"
        "    room.bar = kept\n"
        "    if not refused then",
    ),
    script(
        "grant without deployment limits",
        "queue",
        "    if not refusal_of(found[1], asked, opened, prior, {}) then",
        "    local refused, own = refusal_of(found[1], asked, opened, prior, {}), 0\n"
        "    for g = 1, #asked.row - 1 do own = own + (asked.row[g].last - 2) / CHARGE end\n"
        "    if not refused or refused[2] >= own then",
    ),
    script(
        "tag at enqueue",
        "queue",
        "  if call('ZADD', lane_of(pool, precedence), 'NX', tag, org) == 1 then pool.last[precedence] = tag end\n",
        "  call('ZADD', lane_of(pool, precedence), tag, org)\n  pool.last[precedence] = tag\n",
    ),
    script(
        "settle twice",
        "settle",
        "  if said and said >= opened then return {now, said} end\n",
        "",
    ),
    script(
        "settle after expire",
        "settle",
        "for n = 1, #posted do late.taken[n] = 0 end",
        "for n = 1, #posted do late.taken[n], late.posted[n] = 0, 0 end",
    ),
    script(
        "progress counted twice",
        "progress",
        "    post_all(lease, used[REQUEST + 1] > 0, used)\n",
        "    for n = 1, #lease.posted do lease.posted[n] = 0 end\n    post_all(lease, used[REQUEST + 1] > 0, used)\n",
    ),
    script(
        "Retry-After one short",
        "rows",
        "return at - now + ceil(weighed / group[c + RATE]) end",
        "return at - now + ceil(weighed / group[c + RATE]) - 1 end",
    ),
    script(
        "RPM posted on capacity end",
        "switch",
        "if not waits(old) and not OF_CAPACITY[sign] then",
        "if not waits(old) then",
    ),
    script(
        "budget fresh after flush",
        "serve",
        "    if scopes[key][SEEDED] == 0 then missing",
        "    if false then missing",
    ),
    script(
        "budget lowered by what is told late",
        "seed",
        "max(known, spent)",
        "spent",
    ),
    script(
        "tokens of a budget spent as they go",
        "ends",
        "      elseif unit >= BUDGETED then\n",
        "      elseif unit == BUDGETED then\n",
    ),
    script(
        "priority barging",
        "serve",
        "if not refusal and has_queue and seldom()",
        "if not refusal and has_queue and asked.precedence ~= 0 and seldom()",
    ),
    script("probe held by a stream", "report", "    seldom().note(id, lease, decode(lease.seat), ARGV[i - 1])\n", ""),
    Bug(
        "lease id from the client",
        "gateway/web/inference.py",
        "            request_id=request_id,\n",
        '            request_id=word_of(fields, b"x-request-id") or request_id,\n',
        Judge.TEST,
        "tests/integration/test_corridor.py::test_two_requests_of_one_id_of_their_clients_are_two",
    ),
)
