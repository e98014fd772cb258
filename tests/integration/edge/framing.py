"""Messages that are no clean HTTP, what each hears, and some that are odd and right all the same: data for several tests."""

import gzip

from tests.fakes.wire import chunked, post, request
from tests.integration.edge.bad import ALL, AUTH, CHUNKED, GOOD, MOST_BYTES, PACKED, TYPE, Bad, chat

BODY = chat()
SIZE = b"%x" % len(BODY)
LENGTH = b"content-length: %d" % len(BODY)
IN_CHUNKS = b"transfer-encoding: chunked"
FIRST = b"POST /v1/chat/completions HTTP/1.1"
HOST = b"host: gateway.test"


def lines(*fields: bytes, first: bytes = FIRST, host: bytes | None = HOST, body: bytes = BODY) -> bytes:
    """Return a message of these header lines as they stand, behind those that a good one has."""
    usual = (f"{name}: {value}".encode() for name, value in (AUTH, TYPE))
    return b"\r\n".join([first, *([] if host is None else [host]), *usual, *fields, b"", b""]) + body


def target(written: bytes, *, method: bytes = b"POST", version: bytes = b"HTTP/1.1") -> bytes:
    """Return a good message to another target."""
    return lines(LENGTH, first=b" ".join((method, written, version)))


def coded(*codings: bytes, version: bytes = b"HTTP/1.1") -> bytes:
    """Return a message in chunks whose codings are called this."""
    first = FIRST.replace(b"HTTP/1.1", version)
    return lines(*(b"transfer-encoding:" + coding for coding in codings), first=first, body=chunked(BODY))


def chunks(*pieces: bytes) -> bytes:
    """Return a message whose chunks are these bytes as they stand."""
    return lines(IN_CHUNKS, body=b"".join(pieces))


LAST = b"\r\n0\r\n\r\n"

LENGTHS = {
    "length_and_chunks": lines(LENGTH, IN_CHUNKS, body=chunked(BODY)),
    "chunks_and_length": lines(IN_CHUNKS, LENGTH, body=chunked(BODY)),
    "capital_chunks_and_length": lines(IN_CHUNKS.upper(), b"CONTENT-LENGTH: 4", body=chunked(BODY)),
    "two_equal_lengths": lines(LENGTH, LENGTH),
    "two_lengths": lines(LENGTH, b"content-length: 4"),
    "list_of_lengths": lines(LENGTH + b", %d" % len(BODY)),
    "length_with_plus": lines(b"content-length: +%d" % len(BODY)),
    "length_negative": lines(b"content-length: -%d" % len(BODY)),
    "length_hexadecimal": lines(b"content-length: 0x" + SIZE),
    "length_of_two_words": lines(b"content-length: 1 2"),
    "length_with_point": lines(LENGTH + b".0"),
    "length_with_exponent": lines(b"content-length: 1e2"),
    "length_empty": lines(b"content-length:"),
    "length_text": lines(b"content-length: nine"),
    "length_beyond_64_bits": lines(b"content-length: 18446744073709551616"),
    "length_of_30_digits": lines(b"content-length: " + b"9" * 30),
    "length_in_other_digits": lines(b"content-length: \xd9\xa1"),
    "length_behind_a_space": lines(b"content-length : %d" % len(BODY)),
    "length_behind_a_tab": lines(b"content-length\t: %d" % len(BODY)),
    "length_behind_a_vertical_tab": lines(b"content-length:\x0b%d" % len(BODY)),
    "length_with_underscore": lines(b"content_length: 4", LENGTH),
    "length_folded": lines(b"content-length:\r\n %d" % len(BODY)),
}

CODINGS = {
    "coding_unknown": coded(b" xchunked"),
    "coding_twice": coded(b" chunked, chunked"),
    "coding_identity": coded(b" identity"),
    "coding_gzip_below_chunks": coded(b" gzip, chunked"),
    "coding_identity_above_chunks": coded(b" chunked, identity"),
    "coding_gzip_above_chunks": coded(b" chunked, gzip"),
    "coding_three": coded(b" gzip, chunked, x"),
    "coding_quoted": coded(b' "chunked"'),
    "coding_with_parameter": coded(b" chunked; q=1"),
    "coding_behind_a_comma": coded(b" ,chunked"),
    "coding_before_a_comma": coded(b" chunked,"),
    "coding_empty": coded(b""),
    "coding_behind_a_vertical_tab": coded(b"\x0bchunked"),
    "coding_with_nul": coded(b" chunked\0"),
    "coding_in_two_lines": coded(b" chunked", b" chunked"),
    "coding_then_identity": coded(b" chunked", b" identity"),
    "identity_then_coding": coded(b" identity", b" chunked"),
    "coding_folded": coded(b"\r\n chunked"),
    "coding_behind_a_space": lines(b"transfer-encoding : chunked", body=chunked(BODY)),
    "coding_with_underscore": lines(b"transfer_encoding: chunked", LENGTH),
    "chunks_in_http_1_0": coded(b" chunked", version=b"HTTP/1.0"),
    "gzip_in_the_transfer": lines(b"transfer-encoding: gzip, chunked", body=chunked(gzip.compress(BODY))),
}

CHUNKS = {
    "chunk_size_0x": chunks(b"0x", SIZE, b"\r\n", BODY, LAST),
    "chunk_size_plus": chunks(b"+", SIZE, b"\r\n", BODY, LAST),
    "chunk_size_negative": chunks(b"-1\r\n", BODY, LAST),
    "chunk_size_before_space": chunks(SIZE, b" \r\n", BODY, LAST),
    "chunk_size_behind_space": chunks(b" ", SIZE, b"\r\n", BODY, LAST),
    "chunk_size_missing": chunks(b"\r\n", BODY, LAST),
    "chunk_size_overflow": chunks(b"f" * 17, b"\r\n", BODY, LAST),
    "chunk_size_line_feed": chunks(SIZE, b"\n", BODY, LAST),
    "chunk_size_carriage_return": chunks(SIZE, b"\r", BODY, LAST),
    "chunk_data_line_feed": chunks(SIZE, b"\r\n", BODY, b"\n0\r\n\r\n"),
    "chunk_end_line_feeds": chunks(SIZE, b"\r\n", BODY, b"\r\n0\n\n"),
    "chunk_too_short": chunks(b"%x" % (len(BODY) - 1), b"\r\n", BODY, LAST),
    "chunk_too_long": chunks(b"%x" % (len(BODY) + 1), b"\r\n", BODY, LAST),
    "chunk_extension_line_feed": chunks(SIZE, b";a\nb\r\n", BODY, LAST),
    "chunk_extension_half_quoted": chunks(SIZE, b';a="b\r\n', BODY, LAST),
    "chunk_extension_nul": chunks(SIZE, b";a=\0\r\n", BODY, LAST),
    "trailer_length": chunks(SIZE, b"\r\n", BODY, b"\r\n0\r\ncontent-length: 4\r\n\r\n"),
    "trailer_coding": chunks(SIZE, b"\r\n", BODY, b"\r\n0\r\ntransfer-encoding: chunked\r\n\r\n"),
    "trailer_with_a_space": chunks(SIZE, b"\r\n", BODY, b"\r\n0\r\nx a: b\r\n\r\n"),
}

HOSTS = {
    "no_host": lines(LENGTH, host=None),
    "two_hosts": lines(LENGTH, b"host: other.test"),
    "two_equal_hosts": lines(LENGTH, HOST),
    "host_empty": lines(LENGTH, host=b"host:"),
    "host_of_two_words": lines(LENGTH, host=b"host: a b"),
    "host_with_user": lines(LENGTH, host=b"host: a@b"),
    "host_with_path": lines(LENGTH, host=b"host: a/b"),
    "host_list": lines(LENGTH, host=b"host: a, b"),
    "host_with_a_word_for_port": lines(LENGTH, host=b"host: a:port"),
    "host_with_half_a_bracket": lines(LENGTH, host=b"host: [::1"),
    "host_not_ascii": lines(LENGTH, host=b"host: \xff"),
}

FIELDS = {
    "name_with_underscore": lines(LENGTH, b"x_api_key: abc"),
    "name_with_nul": lines(LENGTH, b"x\0y: 1"),
    "name_with_a_space": lines(LENGTH, b"x y: 1"),
    "name_with_parentheses": lines(LENGTH, b"x(y): 1"),
    "name_with_delete": lines(LENGTH, b"x\x7f: 1"),
    "name_not_ascii": lines(LENGTH, b"x\xc3\xa9: 1"),
    "name_empty": lines(LENGTH, b": 1"),
    "no_colon": lines(LENGTH, b"nocolon"),
    "value_with_carriage_return": lines(LENGTH, b"x-a: b\rc"),
    "value_with_line_feed": lines(LENGTH, b"x-a: b\nauthorization: c"),
    "value_with_nul": lines(LENGTH, b"x-a: b\0c"),
    "value_with_bell": lines(LENGTH, b"x-a: b\x07c"),
    "value_with_delete": lines(LENGTH, b"x-a: b\x7fc"),
    "value_with_escape": lines(LENGTH, b"x-a: \x1b[2J"),
    "folded_with_a_space": lines(LENGTH, b"x-a: b", b" folded"),
    "folded_with_a_tab": lines(LENGTH, b"x-a: b", b"\tfolded"),
    "folded_first_line": lines(LENGTH, host=b" host: gateway.test"),
    "two_types": lines(LENGTH, b"content-type: text/plain"),
    "two_equal_types": lines(LENGTH, b"content-type: application/json"),
    "two_lines_of_codings": lines(LENGTH, b"content-encoding: gzip", b"content-encoding: identity"),
}

ENDS = {
    "line_feeds_alone": lines(LENGTH).replace(b"\r\n", b"\n"),
    "one_line_feed_alone": lines(LENGTH).replace(b"\r\nhost", b"\nhost", 1),
    "line_feeds_behind_the_head": lines(LENGTH).replace(b"\r\n\r\n", b"\n\n", 1),
    "carriage_return_alone": lines(LENGTH).replace(b"\r\nhost", b"\rhost", 1),
    "two_carriage_returns": lines(LENGTH).replace(b"\r\nhost", b"\r\r\nhost", 1),
    "space_in_front": b" " + GOOD,
    "nul_in_front": b"\0" + GOOD,
    "byte_order_mark_in_front": b"\xef\xbb\xbf" + GOOD,
}

TARGETS = {
    "target_with_user": target(b"http://a:b@gateway.test/v1/chat/completions"),
    "target_of_another_scheme": target(b"ftp://gateway.test/v1/chat/completions"),
    "target_of_a_file": target(b"file:///v1/chat/completions"),
    "target_without_host": target(b"http:///v1/chat/completions"),
    "target_with_fragment": target(b"/v1/models#/../chat/completions"),
    "target_with_fragment_alone": target(b"/v1/chat/completions#x"),
    "target_relative": target(b"v1/chat/completions"),
    "target_star": target(b"*"),
    "target_empty": target(b""),
    "target_with_a_space": target(b"/v1/chat /completions"),
    "target_with_a_tab": target(b"/v1/chat\t/completions"),
    "target_not_ascii": target(b"/v1/chat/completions\xff"),
    "query_not_ascii": target(b"/v1/chat/completions?a=\xff"),
    "target_behind_tabs": lines(LENGTH, first=FIRST.replace(b" ", b"\t")),
    "connect": request("CONNECT", "gateway.test:443", AUTH),
}

VERSIONS = {
    "http_0_9": b"GET /v1/models\r\n\r\n",
    "http_1_2": target(b"/v1/chat/completions", version=b"HTTP/1.2"),
    "http_1_10": target(b"/v1/chat/completions", version=b"HTTP/1.10"),
    "http_2_0": target(b"/v1/chat/completions", version=b"HTTP/2.0"),
    "http_9_9": target(b"/v1/chat/completions", version=b"HTTP/9.9"),
    "http_in_small_letters": target(b"/v1/chat/completions", version=b"http/1.1"),
    "space_behind_the_version": target(b"/v1/chat/completions", version=b"HTTP/1.1 "),
    "method_unknown": target(b"/v1/chat/completions", method=b"BREW"),
    "method_in_small_letters": target(b"/v1/chat/completions", method=b"post"),
    "http_2_preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
    "proxy_protocol_1": b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n" + GOOD,
    "proxy_protocol_2": b"\r\n\r\n\0\r\nQUIT\n" + bytes(16) + GOOD,
    "rubbish": b"hello\r\n\r\n",
}

ENDING = tuple(
    Bad(name, data, 400, "invalid_request")
    for table in (LENGTHS, CODINGS, CHUNKS, HOSTS, FIELDS, ENDS, TARGETS, VERSIONS)
    for name, data in table.items()
)
"""What ends its connection: where the next message begins nobody can say."""

LONG = Bad("framing_without_end", chunks(b"1;", b"a" * 700_000), 431, "request_headers_too_large")
LONG_TRAILER = Bad("trailer_without_end", chunks(b"0\r\nx: ", b"a" * 700_000), 431, "request_headers_too_large")

EVERY = (*ALL, *ENDING, LONG, LONG_TRAILER)

ODD = {
    "absolute_target": target(b"http://gateway.test/v1/chat/completions"),
    "absolute_target_of_another_host": target(b"HTTPS://other.test:99/v1/chat/completions"),
    "two_slashes": target(b"//v1/chat/completions"),
    "slash_at_the_end": target(b"/v1/chat/completions/"),
    "escaped_slash": target(b"/v1/chat%2Fcompletions"),
    "escaped_letter": target(b"/v1/ch%61t/completions"),
    "empty_lines_in_front": b"\r\n\r\n" + GOOD,
    "zeros_before_the_length": lines(b"content-length: 000%d" % len(BODY)),
    "zeros_before_the_size": chunks(b"0" * 300, SIZE, b"\r\n", BODY, LAST),
    "capital_coding": lines(b"Transfer-Encoding: CHUNKED", body=chunked(BODY)),
    "chunk_extension": chunks(SIZE, b';a=b;c="d"\r\n', BODY, LAST),
    "chunks_of_one_byte": chunks(chunked(*(BODY[n : n + 1] for n in range(len(BODY))))),
    "trailer": chunks(SIZE, b"\r\n", BODY, b"\r\n0\r\nx-a: b\r\n\r\n"),
    "trailer_with_another_key": chunks(SIZE, b"\r\n", BODY, b"\r\n0\r\nauthorization: Bearer sk-other\r\n\r\n"),
    "trailer_with_a_deadline": chunks(SIZE, b"\r\n", BODY, b"\r\n0\r\nx-request-timeout: nan\r\n\r\n"),
    "host_by_address": lines(LENGTH, host=b"host: [::1]:8080"),
    "host_with_underscore": lines(LENGTH, host=b"Host: my_gateway:8080"),
    "value_of_eight_bits": lines(LENGTH, b"x-a: \xe9"),
    "value_empty": lines(LENGTH, b"x-a:"),
    "expects_what_nobody_knows": lines(LENGTH, b"expect: 200-ok"),
    "names_a_field_of_its_hop": lines(LENGTH, b"connection: authorization"),
    "offers_http_2": lines(LENGTH, b"connection: upgrade, http2-settings", b"upgrade: h2c", b"http2-settings: AAMAAABk"),
    "gzip": post(gzip.compress(BODY), AUTH, TYPE, PACKED),
    "gzip_in_chunks": post(chunked(gzip.compress(BODY)), AUTH, TYPE, PACKED, CHUNKED, framed=False),
    "gzip_up_to_the_bound": post(gzip.compress(BODY + b" " * (MOST_BYTES - len(BODY))), AUTH, TYPE, PACKED),
    "up_to_the_bound": post(BODY + b" " * (MOST_BYTES - len(BODY)), AUTH, TYPE),
    "64_fields": lines(LENGTH, *(b"x-%d: 1" % number for number in range(60))),
}
"""Messages that are right, and answered."""
