from gateway.telemetry.labels import Labels, attempt_outcome, reasons, tier
from tests.unit.telemetry.records import LABELS


def test_reasons_are_the_codes_of_the_error_table() -> None:
    assert {"rate_limit_exceeded", "invalid_api_key", "missing_required_parameter", "draining", "invalid_json"} <= reasons()


def test_what_is_not_known_is_other() -> None:
    assert (LABELS.route("chat"), LABELS.route("/etc")) == ("chat", "other")
    assert LABELS.pair("nebius", "llama") == ("nebius", "llama")
    assert LABELS.pair("deepinfra", "small") == ("other", "other")
    assert LABELS.pair(None, "llama") == ("none", "none")
    assert (LABELS.model("small"), LABELS.model("x")) == ("small", "other")
    assert (LABELS.reason("draining"), LABELS.reason(None), LABELS.reason("x")) == ("draining", "other", "other")
    assert (tier("over-limit"), tier(None), tier("gold")) == ("over-limit", "none", "other")
    assert (attempt_outcome("busy"), attempt_outcome("E42")) == ("busy", "other")


def test_labels_of_a_configuration() -> None:
    assert Labels.of({}, []).served == frozenset()
