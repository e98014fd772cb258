import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import PrivateFormat

from gateway.config.carried import Edition, decode_edition, encode_edition
from gateway.config.certificates import (
    Certificate,
    Certificates,
    Contexts,
    UnusableError,
    certificates_of,
    check,
    context_of,
    read,
    tried,
)
from gateway.config.files import Files
from gateway.config.structs.serving import Tls
from tests.certificates import Pems, days_from_now, encrypt, issue
from tests.unit.config.reading import MINIMAL, config, lines
from tests.unit.config.reading import read as parsed

JUNK = b"-----BEGIN %b-----\nAAAA\n-----END %b-----\n"


def listening(pems: Pems, listener: str = "api") -> str:
    return f"{listener}: {{tls: {{cert: {pems.cert}, key: {pems.key}}}}}\n"


def found(pems: Pems) -> list[str]:
    """Return what is wrong, with names of files in the place of paths."""
    problems = [*check(parsed(MINIMAL + listening(pems)), Files())]
    return [line.replace(f"{pems.cert.parent}/", "") for line in lines(problems)]


def expired(pems: Pems) -> None:
    issue(pems.cert.parent, not_before=days_from_now(-9), not_after=days_from_now(-0.01))


def of_next_week(pems: Pems) -> None:
    issue(pems.cert.parent, not_before=days_from_now(7), not_after=days_from_now(70))


def with_a_key_of_another(pems: Pems) -> None:
    pems.key.write_bytes(issue(pems.cert.parent, "other").key.read_bytes())


def with_a_key_of_another_kind(pems: Pems) -> None:
    pems.key.write_bytes(issue(pems.cert.parent, "other", key_type=trustme.KeyType.RSA).key.read_bytes())


def swapped(pems: Pems) -> None:
    cert = pems.cert.read_bytes()
    pems.cert.write_bytes(pems.key.read_bytes())
    pems.key.write_bytes(cert)


NO_PASSWORD = "api.tls.key: listener.key is encrypted: there is nobody to ask for its password at a start"

BAD: list[tuple[str, Callable[[Pems], object], str]] = [
    ("no certificate file", lambda pems: pems.cert.unlink(), "api.tls.cert: listener.pem cannot be read: No such file"),
    ("no key file", lambda pems: pems.key.unlink(), "api.tls.key: listener.key cannot be read: No such file"),
    ("an empty certificate", lambda pems: pems.cert.write_bytes(b""), "api.tls.cert: listener.pem holds no certificate in PEM"),
    ("an empty key", lambda pems: pems.key.write_bytes(b""), "api.tls.key: listener.key holds no private key in PEM"),
    ("each in the other's place", swapped, "api.tls.cert: listener.pem holds no certificate in PEM"),
    (
        "a certificate of nothing",
        lambda pems: pems.cert.write_bytes(JUNK.replace(b"%b", b"CERTIFICATE")),
        "api.tls.cert: listener.pem holds a certificate that cannot be read: ",
    ),
    (
        "a chain that ends in nothing",
        lambda pems: pems.cert.write_bytes(pems.cert.read_bytes() + JUNK.replace(b"%b", b"CERTIFICATE").replace(b"AAAA", b"A")),
        "api.tls.cert: listener.pem holds a certificate that cannot be read: ",
    ),
    (
        "a key of nothing",
        lambda pems: pems.key.write_bytes(JUNK.replace(b"%b", b"EC PRIVATE KEY")),
        "api.tls.key: listener.key cannot be used with its certificate: ",
    ),
    ("a key with a password", lambda pems: encrypt(pems.key, PrivateFormat.PKCS8), NO_PASSWORD),
    ("an old key with a password", lambda pems: encrypt(pems.key, PrivateFormat.TraditionalOpenSSL), NO_PASSWORD),
    ("another's key", with_a_key_of_another, "api.tls.key: listener.key does not fit the certificate of this listener"),
    ("a key of another kind", with_a_key_of_another_kind, "api.tls.key: listener.key does not fit the certificate"),
    ("expired", expired, "api.tls.cert: listener.pem has expired: it ended at 20"),
    ("not valid yet", of_next_week, "api.tls.cert: listener.pem is not valid yet: it begins at 20"),
]


@pytest.mark.parametrize(("spoil", "expected"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_a_listener_without_a_sound_certificate_is_refused_with_its_path(
    spoil: Callable[[Pems], object], expected: str, tmp_path: Path
) -> None:
    pems = issue(tmp_path)
    assert found(pems) == []
    spoil(pems)
    (problem,) = found(pems)
    assert problem.startswith(expected)
    with pytest.raises(UnusableError) as raised:
        certificates_of(config(listening(pems)), Files())
    assert raised.value.problem.describe("f").replace(f"{tmp_path}/", "").startswith(f"f: {expected}")


def test_one_file_may_hold_both_and_an_rsa_key_will_do(tmp_path: Path) -> None:
    pems = issue(tmp_path, key_type=trustme.KeyType.RSA)
    pems.cert.write_bytes(pems.key.read_bytes() + pems.cert.read_bytes())
    assert found(Pems(pems.cert, pems.cert)) == []


@pytest.mark.parametrize("missing", ["cert", "key"])
def test_one_of_the_two_alone_is_refused(missing: str) -> None:
    given = {"cert": "key", "key": "cert"}[missing]
    (problem,) = lines(parsed(f"{MINIMAL}ops: {{tls: {{{given}: a.pem}}}}").problems)
    assert problem.startswith(f"ops.tls.{missing}: ")


def test_each_listener_has_its_own_and_all_files_are_watched(tmp_path: Path) -> None:
    api, ops = issue(tmp_path, "api"), issue(tmp_path, "ops")
    files, whole = Files(), config(listening(api) + listening(ops, "ops"))
    shown = certificates_of(whole, files)
    assert shown == Certificates(Certificate(api.cert.read_bytes(), api.key.read_bytes()), read_of(ops))
    assert [*files.seen] == [str(path) for path in (api.cert, api.key, ops.cert, ops.key)]
    issue(tmp_path, "ops")
    assert files.changed()
    assert certificates_of(config(""), Files()) == Certificates()


def read_of(pems: Pems) -> Certificate:
    return read(Tls(**pems.section), Files())


def test_it_is_told_when_a_certificate_ends(tmp_path: Path) -> None:
    ends = days_from_now(30).replace(microsecond=0)
    assert tried(read_of(issue(tmp_path, not_after=ends))) == ends


def test_the_oldest_protocols_are_refused_and_no_password_is_asked_for(tmp_path: Path) -> None:
    context = context_of(read_of(issue(tmp_path)))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_NONE
    assert context.keylog_filename is None


def test_a_context_is_made_once_of_each_certificate(tmp_path: Path) -> None:
    now = [read_of(issue(tmp_path))]
    contexts = Contexts.of(lambda: now[-1])
    assert contexts is not None
    first = contexts()
    now.append(read_of(Pems(tmp_path / "listener.pem", tmp_path / "listener.key")))
    assert contexts() is first
    now.append(read_of(issue(tmp_path)))
    assert contexts() is not first
    assert Contexts.of(lambda: None) is None


def test_a_certificate_arrives_at_a_worker_and_its_key_shows_nowhere(tmp_path: Path) -> None:
    certificate = read_of(issue(tmp_path))
    edition = Edition(2, config(""), certificate)
    assert decode_edition(encode_edition(edition)) == edition
    assert "PRIVATE" not in f"{certificate!r}{edition!r}{Certificates(certificate)!r}"
