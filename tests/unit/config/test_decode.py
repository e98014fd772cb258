import pytest

from gateway.config.structs import Config
from gateway.providers import DIALECTS
from tests.unit.config.reading import MINIMAL, config, lines, read


def problems(text: str, **environ: str) -> list[str]:
    return lines(read(text, environ).problems)


def test_an_empty_mapping_is_all_defaults() -> None:
    assert read("{}").config == Config()


def test_json_is_read_too() -> None:
    assert read('{"api": {"port": 9000}, "fallback": {"on": ["capacity"]}}').config.fallback.on == ("capacity",)


@pytest.mark.parametrize(
    "value",
    ["${NAME}", '"${NAME}"', "'${NAME}'", "${file:/x}", "${ABSENT:-a, [b]: c #d}"],
)
def test_a_reference_is_one_scalar_in_flow_and_in_block(value: str) -> None:
    for text in (f"state_dir: {value}\nworkers: 2", f"{{state_dir: {value}, workers: 2}}"):
        parsed = read(text, {"NAME": "n"})
        assert parsed.config.workers == 2
        assert all("state_dir" in line for line in lines(parsed.problems))


def test_a_reference_becomes_what_the_field_wants() -> None:
    text = "api: {port: ${PORT:-8080}}\nworkers: '${W}'\ndatabase: {single_host: ${ONE:-true}}\nleases: {ttl: ${N}s}"
    parsed = read(text, {"W": "3", "N": "60"})
    assert parsed.problems == ()
    found = parsed.config
    assert (found.api.port, found.workers, found.database.single_host, found.leases.ttl_s) == (8080, 3, True, 60.0)


def test_what_a_reference_brings_in_is_never_syntax() -> None:
    assert read("state_dir: ${DIR}", {"DIR": "{a: [b]} # c"}).config.state_dir == "{a: [b]} # c"


def test_the_field_decides_the_type() -> None:
    text = "keys: [{name: no, org: 123, secret: 1234567890123456, default_project: 1.20, keepalive: off}]"
    key = config(text).keys[0]
    assert (key.name, key.org, key.default_project, key.keepalive) == ("no", "123", "1.20", "off")
    assert key.secret is not None
    assert key.secret.reveal() == "1234567890123456"


@pytest.mark.parametrize(
    "value",
    ['"2"', "two", "2.0", "0x2", "1e1", "true", "~", "", "[2]", "{a: 2}", "2s", "0", "257", "2026-01-01"],
)
def test_cfg_03_a_number_is_a_number(value: str) -> None:
    assert len(problems(f"workers: {value}")) == 1


@pytest.mark.parametrize("value", ['"false"', "no", "off", "0", "False", "null"])
def test_cfg_03_a_switch_is_true_or_false(value: str) -> None:
    assert len(problems(f"database: {{single_host: {value}}}")) == 1


def test_a_value_may_be_of_two_types() -> None:
    plans = config("plans: {a: {over_limit: false}, b: {over_limit: {rpm: 5}}, c: {keepalive: 10s}, d: {keepalive: 'off'}}").plans
    assert plans["a"].over_limit is False
    assert getattr(plans["b"].over_limit, "rpm", None) == 5
    assert (plans["c"].keepalive, plans["d"].keepalive) == (10.0, "off")


def test_all_problems_come_at_once_with_their_lines() -> None:
    text = (
        "wrokers: 1\nworkers: x\napi:\n  port: 70000\n  prot: 1\nmodels:\n  a: {deployments: []}\n  'b c': {deployments: [{}]}\n"
    )
    parsed = read(text)
    assert [f"{problem.line} {line}" for problem, line in zip(parsed.problems, lines(parsed.problems), strict=True)] == [
        "1 wrokers: unknown field 'wrokers' (did you mean 'workers'?)",
        "2 workers: expected a whole number, got 'x'",
        "4 api.port: must be at most 65535",
        "5 api.prot: unknown field 'prot' (did you mean 'port'?)",
        "7 models.a.deployments: must not be empty",
        "8 models.b c.deployments[0].provider: is missing",
        "8 models.b c.deployments[0].model: is missing",
        "8 models.b c: expected a model name of at most 128 letters, digits and the characters _ . @ + : / -",
    ]


def test_a_broken_entry_keeps_its_name() -> None:
    parsed = read("models: {small: {deployments: 1}}")
    assert parsed.names("models") == {"small"}
    assert parsed.config.models == {}


def test_an_alias_is_a_whole_value_and_a_merge_key_is_refused() -> None:
    text = MINIMAL + "plans: {a: {limits: &l {rpm: 5}}, b: {limits: *l}}"
    assert read(text).config.plans["b"].limits.rpm == 5
    assert problems("api: &a {port: 1}\nops: {<<: *a}") == [
        "ops: merge keys are not read here: repeat the fields, or use an alias for the whole mapping"
    ]


@pytest.mark.parametrize("text", ["? [a]\n: 1", "!mine a: 1"])
def test_a_field_has_a_plain_name(text: str) -> None:
    assert problems(text) == [": a field's name must be plain text"]


@pytest.mark.parametrize("value", ["!mine x", "!!binary eA==", "!!python/object/apply:os.getcwd []", "!!set {a}"])
def test_a_tag_makes_no_object(value: str) -> None:
    assert problems(f"state_dir: {value}")[0].endswith("is not read here")


def test_a_value_of_the_environment_never_shows() -> None:
    canary = "canary-value"
    text = "workers: ${X}\nleases: {ttl: '${X}'}\ntelemetry: {log: ${X}}\nkeys: [{name: '${X} y', secret: ${X}}]\norgs: {a: ${X}}"
    parsed = read(text, {"X": canary})
    assert len(parsed.problems) == 5
    assert canary not in "".join(lines(parsed.problems)) + repr(parsed.config)


def test_a_file_may_name_the_dialects_that_there_are_and_no_other() -> None:
    for name in DIALECTS:
        found = read(f"providers: {{local: {{base_url: https://api.example.com/v1, dialect: {name}}}}}")
        assert (lines(found.problems), found.config.providers["local"].dialect) == ([], name)
    (problem,) = problems("providers: {local: {base_url: https://api.example.com/v1, dialect: opnai}}")
    assert problem.startswith(f"providers.local.dialect: expected one of {', '.join(sorted(DIALECTS))}, got 'opnai'")
    assert problem.endswith("(did you mean 'openai'?)")
