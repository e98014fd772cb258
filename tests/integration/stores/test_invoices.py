"""A provider's invoice beside the ledger, day by day, and how far they may be apart."""

from io import StringIO

import pytest

from gateway.stores.database import Reader, Writer
from gateway.stores.invoices import Difference, Figures, compared, read_invoice
from gateway.stores.rollups import DAY_MS
from tests.integration.stores.test_rollups import BEGAN, closed

HEAD = "day,provider,model,input_tokens,output_tokens,cost_usd\n"
FIRST, SECOND, THIRD = "2026-11-29", "2026-11-30", "2026-12-01"


def invoice(*lines: str) -> dict[tuple[str, str], Figures]:
    return read_invoice(StringIO(HEAD + "\n".join(lines)))


@pytest.fixture
async def used(writer: Writer) -> None:
    served = {"provider": "nebius", "input_tokens": 1000, "output_tokens": 200, "own_cost_nano_usd": 3_000_000}
    await writer.write(
        [
            *(closed(n, started_unix_ms=BEGAN + n, **served) for n in range(4)),
            closed(10, started_unix_ms=BEGAN + DAY_MS, **served),
            closed(11, started_unix_ms=BEGAN + DAY_MS, **{**served, "own_cost_nano_usd": None}),
            closed(20, started_unix_ms=BEGAN + 2 * DAY_MS, **{**served, "provider": "deepinfra"}),
            closed(30, started_unix_ms=BEGAN + 2 * DAY_MS, **served),
        ]
    )


def percents(differences: list[Difference]) -> dict[tuple[str, str], float]:
    return {(each.day, each.provider): round(each.percent, 3) for each in differences}


@pytest.mark.usefixtures("used")
async def test_days_and_providers_are_compared_as_a_whole(reader: Reader) -> None:
    charged = invoice(
        f"{FIRST},nebius,up/a,3000,600,0.009",
        f"{FIRST},nebius,up/b,1000,200,0.003",
        f"{SECOND},nebius,up/a,2000,400,0.5",
        f"{THIRD},nebius,up/a,1005,200,0.003",
    )
    [first, second, third] = await compared(reader, charged)
    assert (first.ledger, first.invoice) == (Figures(4000, 800, 12_000_000), Figures(4000, 800, 12_000_000))
    assert second.ledger.cost_nano_usd is None
    assert percents([first, second, third]) == {(FIRST, "nebius"): 0, (SECOND, "nebius"): 0, (THIRD, "nebius"): 0.498}


@pytest.mark.usefixtures("used")
async def test_what_is_in_one_of_the_two_alone_differs_whole(reader: Reader) -> None:
    charged = invoice(f"{FIRST},nebius,a,4000,800,0.012", f"{THIRD},nebius,a,1000,200,0.003", f"{FIRST},other,a,1,0,0")
    found = percents(await compared(reader, charged))
    assert found == {(FIRST, "nebius"): 0, (SECOND, "nebius"): 100, (THIRD, "nebius"): 0, (FIRST, "other"): 100}
    assert await compared(reader, {}) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("day,provider\n", "no model, input_tokens"),
        ("", "no day"),
        (HEAD + "yesterday,p,m,1,2,3", "line 2"),
        (HEAD + f"{FIRST},p,m,1,2,3\n{FIRST},p,m,1,2", "line 3"),
        (HEAD + f"{FIRST},p,m,1,2,dear", "line 2"),
        (HEAD + f"{FIRST},p,m,1,2,inf", "line 2"),
    ],
)
def test_what_is_no_invoice_is_refused_with_its_line(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_invoice(StringIO(text))
