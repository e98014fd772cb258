"""Orgs, plans and projects over the admin API: those of the database are put and deleted, those of the file are shown."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Literal

import msgspec
from litestar import Response, Router, delete, get, put
from litestar.params import FromPath, JSONBody, QueryParameter

from gateway.errors import Conflict
from gateway.stores.terms import Kind, Term, Terms
from gateway.web.gate import Asked
from gateway.web.preconditions import etag, expected_unix_ms
from gateway.web.told import errors

MOST_TERMS = 1_000
"""Of one page."""

After = Annotated[str | None, QueryParameter(description="From behind this name on")]
Limit = Annotated[int, QueryParameter(ge=1, le=MOST_TERMS)]


class ShownTerm(msgspec.Struct, frozen=True, kw_only=True):
    """An org, a plan or a project. `definition` is what the file says of it, or would; those of the `file` are changed there.

    `told` is there after a change; false: gateways learn of it within 30 s.
    """

    kind: Kind
    name: str
    org: str | None
    source: Literal["file", "database"]
    definition: dict[str, Any]
    created_unix_ms: int | None = None
    updated_unix_ms: int | None = None
    told: bool | None = None


class TermPage(msgspec.Struct, frozen=True):
    """Some of them by their names; `next` is the `after` of the page behind it, null on the last one."""

    data: list[ShownTerm]
    next: str | None


class Removed(msgspec.Struct, frozen=True):
    """What is not there any more."""

    kind: Kind
    name: str
    org: str | None
    told: bool


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration file has, each by its name."""

    orgs: Mapping[str, dict[str, Any]] = {}
    plans: Mapping[str, dict[str, Any]] = {}
    projects: Mapping[str, Mapping[str, dict[str, Any]]] = {}

    def of(self, kind: Kind, org: str | None) -> Mapping[str, dict[str, Any]]:
        """Return all of a kind; of projects those of an org."""
        if kind == "project":
            return self.projects.get(org or "", {})
        return self.orgs if kind == "org" else self.plans


class AdminTerms:
    """Those of the file and those of the database, which have no names in common."""

    def __init__(self, terms: Terms, declared: Callable[[], Declared]) -> None:
        self._terms = terms
        self._declared = declared

    async def page(self, kind: Kind, org: str | None, after: str | None, limit: int) -> TermPage:
        """Return some of a kind, from behind a name on."""
        named = {
            name: of_file(Term(kind=kind, name=name, org=org), text) for name, text in self._declared().of(kind, org).items()
        }
        for view in await self._terms.many(kind, org):
            named.setdefault(view.name, ShownTerm(**msgspec.structs.asdict(view), source="database"))
        found = [*islice((named[name] for name in sorted(named) if after is None or name > after), limit + 1)]
        return TermPage(found[:limit], found[limit - 1].name if len(found) > limit else None)

    async def one(self, term: Term) -> ShownTerm:
        """Return one. Raises NotFound."""
        if (text := self._declared().of(term.kind, term.org).get(term.name)) is not None:
            return of_file(term, text)
        return ShownTerm(**msgspec.structs.asdict(await self._terms.one(term)), source="database")

    async def put(self, request: Asked, term: Term, definition: Mapping[str, Any]) -> Response[ShownTerm]:
        """Have one be so. Raises InvalidValue, Conflict and Outdated."""
        told = await self._terms.put(request.user.name, term, definition, expected_unix_ms(request))
        shown = msgspec.structs.replace(await self.one(term), told=told)
        return Response(shown, headers=etag(shown.updated_unix_ms))

    async def delete(self, request: Asked, term: Term) -> Removed:
        """Take one away. Raises NotFound, Conflict and Outdated."""
        if term.name in self._declared().of(term.kind, term.org):
            raise Conflict(f"{term.subject} is declared in the configuration file: change it there")
        told = await self._terms.delete(request.user.name, term, expected_unix_ms(request))
        return Removed(term.kind, term.name, term.org, told)

    async def check_org(self, org: str) -> None:
        """Raise NotFound unless there is such an org, whose projects may be asked for."""
        if org not in self._declared().projects:
            await self.one(Term(kind="org", name=org))


def of_file(term: Term, definition: dict[str, Any]) -> ShownTerm:
    """Return one of the file."""
    return ShownTerm(kind=term.kind, name=term.name, org=term.org, source="file", definition=definition)


def shown(found: ShownTerm) -> Response[ShownTerm]:
    """Return the answer with one; its ETag names its state."""
    return Response(found, headers=etag(found.updated_unix_ms))


def terms_routers(terms: AdminTerms) -> Sequence[Router]:
    """Return the routes under /admin/orgs and /admin/plans."""
    orgs = Router("/orgs", route_handlers=[*routes_of("org", terms), *project_routes(terms)])
    return orgs, Router("/plans", route_handlers=routes_of("plan", terms))


def routes_of(kind: Literal["org", "plan"], terms: AdminTerms) -> Sequence[Any]:
    """Return the routes of all orgs, or of all plans, and of one."""

    @get("/", summary=f"List {kind}s", responses=errors())
    async def list_all(after: After = None, limit: Limit = 100) -> TermPage:
        """Return a page of them, the file's too."""
        return await terms.page(kind, None, after, limit)

    @get("/{name:str}", summary=f"Show one {kind}", responses=errors(404))
    async def show(name: FromPath[str]) -> Response[ShownTerm]:
        """Return one."""
        return shown(await terms.one(Term(kind=kind, name=name)))

    @put("/{name:str}", summary=f"Make or change one {kind}", responses=errors(409, 412, changes=True))
    async def put_one(request: Asked, name: FromPath[str], data: JSONBody[dict[str, Any]]) -> Response[ShownTerm]:
        """Have it be as the body says, which is what the file would say of it; preconditions hold."""
        return await terms.put(request, Term(kind=kind, name=name), data)

    @delete("/{name:str}", summary=f"Delete one {kind}", status_code=200, responses=errors(404, 409, 412, changes=True))
    async def delete_one(request: Asked, name: FromPath[str]) -> Removed:
        """Take it away, unless keys need it; preconditions hold."""
        return await terms.delete(request, Term(kind=kind, name=name))

    return list_all, show, put_one, delete_one


def project_routes(terms: AdminTerms) -> Sequence[Any]:
    """Return the routes of an org's projects."""

    @get("/{org:str}/projects", summary="List the projects of an org", responses=errors(404))
    async def list_all(org: FromPath[str], after: After = None, limit: Limit = 100) -> TermPage:
        """Return a page of them, the file's too."""
        await terms.check_org(org)
        return await terms.page("project", org, after, limit)

    @get("/{org:str}/projects/{name:str}", summary="Show one project", responses=errors(404))
    async def show(org: FromPath[str], name: FromPath[str]) -> Response[ShownTerm]:
        """Return one."""
        return shown(await terms.one(Term(kind="project", name=name, org=org)))

    @put("/{org:str}/projects/{name:str}", summary="Make or change one project", responses=errors(409, 412, changes=True))
    async def put_one(
        request: Asked, org: FromPath[str], name: FromPath[str], data: JSONBody[dict[str, Any]]
    ) -> Response[ShownTerm]:
        """Have it be as the body says, which is what the file would say of it; preconditions hold."""
        return await terms.put(request, Term(kind="project", name=name, org=org), data)

    @delete(
        "/{org:str}/projects/{name:str}",
        summary="Delete one project",
        status_code=200,
        responses=errors(404, 409, 412, changes=True),
    )
    async def delete_one(request: Asked, org: FromPath[str], name: FromPath[str]) -> Removed:
        """Take it away, unless keys need it; preconditions hold."""
        return await terms.delete(request, Term(kind="project", name=name, org=org))

    return list_all, show, put_one, delete_one
