from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.pictures import KINDS, has_pictures
from gateway.wire.request import Endpoint, parse

URL = "https://pictures.example/a.png"
SHOWN: tuple[Any, ...] = (
    [{"role": "user", "content": [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {"url": URL}}]}],
    [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": URL}}]}],
    [{"role": "user", "content": [{"type": "tool_result", "content": [{"type": "image", "source": {}}]}]}],
    [{"role": "user", "content": [{"type": "input_image", "image_url": URL}]}],
    [{"type": "function_call_output", "output": [{"type": "input_image", "image_url": URL}]}],
    [{"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": URL}}],
)
NOT_SHOWN: tuple[Any, ...] = (
    [{"role": "user", "content": "image_url"}],
    [{"role": "user", "content": 'say "image_url": {"type": "image"}'}],
    [{"role": "user", "content": [{"type": "text", "text": "image"}]}],
    [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AA=="}}]}],
    [{"role": "assistant", "content": [{"type": "tool_use", "name": "draw", "input": {"type": "image"}}]}],
    [{"role": "user", "content": [{"type": ["image"]}]}],
    ["image", "image_url"],
    "image",
)


@pytest.mark.parametrize("shown", SHOWN)
def test_pictures_are_found(shown: Any) -> None:
    assert has_pictures(msgspec.json.encode(shown))
    assert has_pictures(msgspec.json.format(msgspec.json.encode(shown), indent=2))


@pytest.mark.parametrize("not_shown", NOT_SHOWN)
def test_their_words_alone_are_no_pictures(not_shown: Any) -> None:
    assert not has_pictures(msgspec.json.encode(not_shown))


def test_what_only_looked_like_json_shows_nothing() -> None:
    assert not has_pictures(b'[{"content":[{"type":"image"')
    assert not has_pictures(b'["image",' + b"[" * 5_000 + b"]" * 5_000 + b"]")


@given(st.text(), st.sampled_from(sorted(KINDS)))
def test_text_is_never_a_picture(text: str, kind: str) -> None:
    said = [{"role": "user", "content": text + kind}, {"role": "user", "content": [{"type": "text", "text": kind + text}]}]
    assert not has_pictures(msgspec.json.encode(said))
    asked = parse(Endpoint.CHAT, msgspec.json.encode({"model": "m", "messages": said}))
    assert not has_pictures(asked.members.value("messages") or b"")
