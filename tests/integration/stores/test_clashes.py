"""A name that both the file and the database give to something: no gateway starts so, and says every one of them."""

from pathlib import Path

from gateway.stores.terms import Term
from tests.integration.stores.tenants import world_of
from tests.integration.stores.test_db_command import OF_ITS_OWN, PORTS, config, serve


async def test_no_gateway_starts_where_two_hold_one_name(url: str, tmp_path: Path) -> None:
    async with world_of(url) as world:
        await world.terms.put("admin:ann", Term(kind="plan", name="small"), {})
        await world.terms.put("admin:ann", Term(kind="org", name="beta"), {"projects": {"lab": {}}})
        await world.terms.put("admin:ann", Term(kind="project", name="lab", org="acme"), {})
    path = config(tmp_path, url, PORTS + OF_ITS_OWN % tmp_path)
    text = path.read_text().replace("plans:\n", "plans:\n  small: {}\n")
    path.write_text(text.replace("orgs:\n", "orgs:\n  beta: {}\n  gamma: {projects: {lab: {}}}\n"))
    code, said = await serve(path)
    assert code == 78
    assert [line.partition(": is in the database too")[0] for line in said.splitlines()] == [
        f"{path}: orgs.beta",
        f"{path}: plans.small",
    ]
