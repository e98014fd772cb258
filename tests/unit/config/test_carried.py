from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from gateway.config.carried import Edition, decode_edition, document, encode_edition, fingerprint
from gateway.config.shown import whole
from tests.unit.config.reading import config, read
from tests.unit.config.rich import RICH

PEPPER = b"pepper-of-this-test"


def test_a_reading_arrives_as_it_was_sent_with_its_secrets() -> None:
    edition = Edition(7, config(RICH))
    assert decode_edition(encode_edition(edition)) == edition
    assert document(edition.config)["keys"][0]["secret"] == "sk-0123456789abcdef"


def test_several_credentials_arrive_in_their_order() -> None:
    text = """
providers: {p: {base_url: https://a, api_keys: [sk-1, sk-2]}}
models: {m: {deployments: [{provider: p, model: m}]}}
"""
    edition = Edition(7, read(text).config)
    assert decode_edition(encode_edition(edition)) == edition
    assert document(edition.config)["providers"]["p"]["api_keys"] == ["sk-1", "sk-2"]
    assert whole(edition.config)["providers"]["p"]["api_keys"] == ["***", "***"]
    assert "sk-" not in repr(edition)


def test_what_is_no_reading_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_edition(b'{"number": "7"}')


def test_a_fingerprint_is_of_what_a_file_means_and_of_no_use_without_the_pepper() -> None:
    found = fingerprint(config(RICH), PEPPER)
    assert fingerprint(config(f"# a remark{RICH}"), PEPPER) == found
    assert fingerprint(config(RICH.replace("a-secret", "another")), PEPPER) != found
    assert fingerprint(config(RICH), b"another pepper") != found


def test_a_fingerprint_is_of_what_is_trusted_too(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("one")
    trusting = config("")
    provider = replace(trusting.providers["local"], ca_file=str(path))
    trusting = replace(trusting, providers={"local": provider})
    found = fingerprint(trusting, PEPPER)
    path.write_text("two")
    assert fingerprint(trusting, PEPPER) != found
    path.unlink()
    with pytest.raises(OSError, match="No such file"):
        fingerprint(trusting, PEPPER)
