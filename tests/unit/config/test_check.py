import msgspec
import msgspec.inspect as mi
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.check import check
from gateway.config.compile import compile_catalogue
from gateway.config.document import DocumentError
from gateway.config.kinds import alternatives, scalar, words
from gateway.config.structs import Config
from tests.unit.config.reading import MINIMAL, findings, read

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 70_000),
    st.floats(0, 2),
    st.text(max_size=3),
    st.sampled_from(["1s", "a", "b", "${A}", "*"]),
)
NAMES = st.sampled_from(["a", "b", "c d"])


def some(kind: mi.Type, depth: int = 0) -> st.SearchStrategy[object]:
    """Return values that often are of a type, and often are not."""
    options: list[st.SearchStrategy[object]] = [SCALARS]
    for one in alternatives(kind):
        if isinstance(one, mi.StructType):
            fields: dict[str, st.SearchStrategy[object]] = {
                field.encode_name: some(field.type, depth + 1) for field in one.fields
            }
            required = {name: fields.pop(name) for name in [field.encode_name for field in one.fields if field.required]}
            options = [st.fixed_dictionaries(required, optional=fields), *options[: depth > 0]]
        elif isinstance(one, mi.DictType):
            options.append(st.dictionaries(NAMES, some(one.value_type, depth + 1), max_size=2))
        elif isinstance(one, mi.VarTupleType):
            options.append(st.lists(some(one.item_type, depth + 1), max_size=2))
        elif choice := words(one):
            options.append(st.sampled_from(choice))
        elif scalar(one) is None:
            raise AssertionError(one)
    return st.one_of(options)


@given(some(mi.type_info(Config)))
def test_any_document_is_compiled_or_told_what_is_wrong_with_it(document: object) -> None:
    try:
        parsed = read(msgspec.json.encode(document).decode(), {"A": "1"})
    except DocumentError:
        return
    if not check(parsed).errors:
        compile_catalogue(parsed.config, b"pepper")


def test_warnings_wait_until_the_errors_are_gone() -> None:
    unused = "plans: {p: {models: [nothing]}}\n"
    assert len(findings(unused).warnings) == 1
    assert findings(unused + "workers: 0").warnings == []


def test_the_minimal_file_is_sound() -> None:
    found = check(read(MINIMAL))
    assert (found.errors, found.warnings) == ([], [])
