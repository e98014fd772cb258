import shlex

import msgspec

from gateway.cli.demo import CONFIG, Keys, Place, ask, new_key, place_of, tour, variables
from gateway.config import load
from gateway.config.structs.serving import Tls
from gateway.demo.scripts import SCRIPTS
from gateway.demo.serving import listener

KEYS = Keys(provider=new_key(), client=new_key(), single=new_key())


def test_a_request_is_one_command_that_a_shell_reads_back() -> None:
    words = shlex.split(ask(Place("http://localhost/v1"), "the-key", {"text": 'it\'s "quoted"'}, "-N"))
    assert words[:4] == ["curl", "-s", "-N", "http://localhost/v1"]
    assert msgspec.json.decode(words[-1]) == {"text": 'it\'s "quoted"'}
    assert "authorization: Bearer the-key" in words


def test_the_tour_has_a_command_for_each_thing_to_try() -> None:
    text = tour(place_of("127.0.0.1:8080", None), place_of("127.0.0.1:8081", None), KEYS)
    commands = [line for line in text.splitlines() if line.startswith("curl ")]
    assert len(commands) == 5
    assert sum(KEYS.client in command for command in commands) == 3
    assert sum(KEYS.single in command for command in commands) == 1
    assert KEYS.provider not in text


def test_over_tls_a_command_says_what_to_trust() -> None:
    place = place_of("127.0.0.1:8080", Tls(cert="my certs/a.pem", key="a.key"))
    commands = [line for line in tour(place, place, KEYS).splitlines() if line.startswith("curl ")]
    assert len(commands) == 5
    assert all("https://127.0.0.1:8080/" in command for command in commands)
    assert all(shlex.split(command)[2:4] == ["--cacert", "my certs/a.pem"] for command in commands)


def test_the_shipped_configuration_is_sound_and_serves_models_that_the_providers_have() -> None:
    with listener() as north, listener() as south:
        loaded = load(CONFIG, variables({"north": north, "south": south}, KEYS))
    assert loaded.warnings == ()
    assert {target.model for model in loaded.config.models.values() for target in model.deployments} <= set(SCRIPTS)


def test_two_keys_are_never_the_same() -> None:
    assert new_key() != new_key()
