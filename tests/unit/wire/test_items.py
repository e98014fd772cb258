"""What is read of a request of Responses: its input, its size, its bound, and what no provider is asked for."""

import pytest

from gateway.errors import Unprocessable, UnsupportedParameter
from gateway.wire.prompts import TOKENS_PER_FILE, TOKENS_PER_MESSAGE, Prompt
from gateway.wire.request import Endpoint, InferenceRequest
from tests.unit.wire.bodies import ABSENT, locs, read

PNG = "iVBORw0KGgo" * 100


def responses(**fields: object) -> InferenceRequest:
    return read(Endpoint.RESPONSES, {"model": "m", "input": "Say hi"} | fields)


def given(*items: object) -> Prompt:
    found = responses(input=[*items]).fields["input"]
    assert isinstance(found, Prompt)
    return found


class TestWhatIsRead:
    def test_a_text_is_one_item(self) -> None:
        found = responses()
        assert (found.prompts, found.prompt_tokens, found.stream, found.max_tokens) == (1, 3 + TOKENS_PER_MESSAGE, False, None)
        assert found.text_bytes == len('"Say hi"')

    def test_the_bound_has_a_name_of_its_own(self) -> None:
        assert responses(max_output_tokens=9).max_tokens == 9
        assert responses(max_tokens=9).max_tokens is None

    def test_instructions_and_tools_are_counted(self) -> None:
        more = responses(instructions="x" * 30, tools=[{"type": "web_search"}])
        assert more.text_bytes == responses().text_bytes + 32 + len('[{"type":"web_search"}]')

    def test_items_of_any_type_are_counted(self) -> None:
        items = ({"role": "user", "content": "hi"}, {"type": "of_another_day", "x": 1.5}, {"type": None})
        assert given(*items).tokens > 3 * TOKENS_PER_MESSAGE

    @pytest.mark.parametrize("file", [f"data:image/png;base64,{PNG}", PNG])
    def test_a_file_is_no_text(self, file: str) -> None:
        plain = given({"role": "user", "content": [{"type": "input_image", "image_url": "-"}]})
        found = given({"role": "user", "content": [{"type": "input_image", "image_url": file}]})
        assert found.files == 1
        assert found.text_bytes == plain.text_bytes - 3
        assert TOKENS_PER_FILE <= found.tokens - plain.tokens + 1 <= TOKENS_PER_FILE + 1

    def test_options_of_a_stream_are_the_providers(self) -> None:
        found = responses(stream=True, stream_options={"include_obfuscation": False})
        assert found.include_usage is False
        assert not found.wants_running_usage


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("value", "place"),
        [
            (ABSENT, ("input",)),
            (7, ("input",)),
            ({"role": "user"}, ("input",)),
            ([], ("input",)),
            ([7, {}, "x"], ("input", 0)),
            ([{}, {"type": 7}], ("input", 1, "type")),
            ([{"role": ["user"]}], ("input", 0, "role")),
        ],
    )
    def test_what_is_no_input(self, value: object, place: tuple[str | int, ...]) -> None:
        with pytest.raises(Unprocessable) as raised:
            responses(input=value)
        assert locs(raised.value)[0] == ("body", *place)

    def test_every_bad_item_is_told(self) -> None:
        with pytest.raises(Unprocessable) as raised:
            responses(input=[7, {}, "x", {"role": 1}])
        assert locs(raised.value) == [("body", "input", 0), ("body", "input", 2), ("body", "input", 3, "role")]

    def test_an_answer_in_the_background(self) -> None:
        with pytest.raises(UnsupportedParameter) as raised:
            responses(background=True)
        assert raised.value.param == "background"
        assert responses(background=False).members.value("background") == b"false"

    def test_what_hides_in_extra_body(self) -> None:
        for name in ("max_output_tokens", "background", "input"):
            with pytest.raises(Unprocessable):
                responses(extra_body={name: 1})

    def test_top_logprobs_need_nothing_else(self) -> None:
        assert responses(top_logprobs=3).fields["top_logprobs"] == 3
