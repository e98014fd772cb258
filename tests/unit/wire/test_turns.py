"""What is read of a Messages request: its turns, their size, and what of them chat has no words for."""

import msgspec
import pytest

from gateway.errors import Unprocessable
from gateway.wire.prompts import Prompt
from gateway.wire.request import Endpoint, InferenceRequest
from tests.unit.wire.bodies import ABSENT, locs, read

PNG = "iVBORw0KGgo" * 100


def messages(**fields: object) -> InferenceRequest:
    return read(Endpoint.MESSAGES, {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Say hi"}]} | fields)


def said(*blocks: object) -> Prompt:
    found = messages(messages=[{"role": "user", "content": [*blocks]}]).fields["messages"]
    assert isinstance(found, Prompt)
    return found


class TestWhatIsRead:
    def test_the_bound_and_the_prompt(self) -> None:
        found = messages()
        assert (found.max_tokens, found.prompts, found.stream) == (9, 1, False)
        assert found.prompt_tokens == -(-len(b'[{"role":"user","content":"Say hi"}]') // 3) + 4

    def test_a_system_prompt_and_tools_are_counted(self) -> None:
        more = messages(system="Be brief", tools=[{"name": "f", "input_schema": {}}])
        assert more.text_bytes - messages().text_bytes == len(b'"Be brief"') + len(b'[{"name":"f","input_schema":{}}]')

    def test_a_file_is_not_counted_by_its_bytes(self) -> None:
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
        assert said(image).files == 1
        assert said(image).text_bytes < 200

    def test_a_file_that_is_fetched_is_one_and_an_address_that_a_tool_gets_is_none(self) -> None:
        image = {"type": "image", "source": {"type": "url", "url": "https://a.example/1.png"}}
        call = {"type": "tool_use", "id": "t", "name": "fetch", "input": {"url": "https://a.example/1.png"}}
        assert (said(image).files, said(call).files) == (1, 0)
        assert said(image).tokens > 1_000 > said(call).tokens

    def test_what_an_id_carries_is_not_counted(self) -> None:
        def size(call_id: str) -> tuple[int, int]:
            call = {"type": "tool_use", "id": call_id, "name": "f", "input": {}}
            result = {"type": "tool_result", "tool_use_id": call_id, "content": call_id}
            found = said(call, result)
            return found.tokens, found.text_bytes

        carried = "__x0123abcd_" + "e30" * 1_000
        (plain_tokens, plain_bytes), (tokens, text_bytes) = size("call_1"), size("call_1" + carried)
        assert text_bytes - plain_bytes == len(carried)
        assert tokens - plain_tokens <= len(carried) // 3 + 1

    def test_what_the_gateway_obeys_beside_it(self) -> None:
        found = messages(model=ABSENT, models=["a", "b"], fail_fast=True, service_tier="standard_only", stream=True)
        assert (found.models, found.fail_fast, found.service_tier, found.stream) == (("a", "b"), True, "standard_only", True)


class TestWhatIsAmiss:
    @pytest.mark.parametrize(
        ("fields", "where"),
        [
            ({"max_tokens": ABSENT}, ("body", "max_tokens")),
            ({"max_tokens": 0}, ("body", "max_tokens")),
            ({"models": ["a"], "model": ABSENT, "max_tokens": ABSENT}, ("body", "max_tokens")),
            ({"messages": ABSENT}, ("body", "messages")),
            ({"messages": []}, ("body", "messages")),
            ({"messages": [{"role": "assistant", "content": "hi"}]}, ("body", "messages", 0, "role")),
            ({"messages": [{"role": "system", "content": "hi"}]}, ("body", "messages", 0, "role")),
            ({"messages": [{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}]}, ("body", "messages", 1, "role")),
            (
                {"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": 5}]},
                ("body", "messages", 1, "content"),
            ),
            ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant"}]}, ("body", "messages", 1, "content")),
            ({"messages": [{"role": "user"}]}, ("body", "messages", 0, "content")),
            ({"messages": [{"role": "user", "content": 5}]}, ("body", "messages", 0, "content")),
            ({"messages": [{"role": "user", "content": [{"text": "a"}]}]}, ("body", "messages", 0, "content", 0, "type")),
            ({"messages": ["hi"]}, ("body", "messages", 0)),
            ({"system": [{"type": "image"}]}, ("body", "system")),
            ({"temperature": 1.5}, ("body", "temperature")),
            ({"stop_sequences": [""]}, ("body", "stop_sequences", 0)),
            ({"tool_choice": {"type": 5}}, ("body", "tool_choice", "type")),
            ({"tool_choice": {"disable_parallel_tool_use": 1}}, ("body", "tool_choice", "disable_parallel_tool_use")),
            ({"thinking": {"type": 5}}, ("body", "thinking", "type")),
            ({"thinking": {"type": "enabled", "budget_tokens": 0}}, ("body", "thinking", "budget_tokens")),
            ({"thinking": {"type": "enabled", "budget_tokens": 10**400}}, ("body", "thinking", "budget_tokens")),
            ({"thinking": {"type": "enabled", "budget_tokens": "many"}}, ("body", "thinking", "budget_tokens")),
            ({"thinking": "between_tools"}, ("body", "thinking")),
            ({"metadata": {"user_id": 5}}, ("body", "metadata", "user_id")),
        ],
    )
    def test_it_is_named(self, fields: dict[str, object], where: tuple[str | int, ...]) -> None:
        with pytest.raises(Unprocessable) as refused:
            messages(**fields)
        assert locs(refused.value) == [where]

    def test_all_turns_are_looked_at(self) -> None:
        with pytest.raises(Unprocessable) as refused:
            messages(messages=[{"role": "user"}, {"content": "a"}, 7, {"role": "tool", "content": "a"}])
        assert locs(refused.value) == [
            ("body", "messages", 0, "content"),
            ("body", "messages", 1, "role"),
            ("body", "messages", 2),
            ("body", "messages", 3, "role"),
        ]


@pytest.mark.parametrize(
    "fields",
    [
        {"thinking": {"type": "between_tools"}},
        {"thinking": {"type": "of_another_day", "budget_tokens": "many"}},
        {"tool_choice": {"type": "of_another_day", "tools": ["f"]}},
        {"output_config": {"effort": "of_another_day", "format": {"type": "of_another_day"}}},
    ],
)
def test_words_that_are_the_providers_to_judge_are_taken(fields: dict[str, object]) -> None:
    assert messages(**fields).fields.keys() > fields.keys()


class TestWhatChatHasNoWordsFor:
    @pytest.mark.parametrize(
        "block",
        [
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
            {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}},
            {"type": "tool_result", "tool_use_id": "t", "content": "done"},
            {"type": "tool_result", "tool_use_id": "t"},
            {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "done"}]},
            {"type": "thinking", "thinking": "a", "signature": "b"},
        ],
    )
    def test_it_has_for_what_is_usual(self, block: object) -> None:
        assert said(block).beyond_chat is None

    @pytest.mark.parametrize(
        "block",
        [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "image", "source": {"type": "file", "file_id": "f"}},
            {"type": "image", "source": 5},
            {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
            {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "search_result"}]},
            {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "tool_result"}]},
            {"type": "tool_result", "tool_use_id": "t", "content": 5},
        ],
    )
    def test_the_first_is_named(self, block: object) -> None:
        assert said({"type": "text", "text": "a"}, block, block).beyond_chat == "messages.0.content.1"

    @pytest.mark.parametrize(
        ("turn", "named"),
        [
            ({"content": "b"}, None),
            ({"content": [{"type": "text", "text": "b"}]}, None),
            ({"output_config": {"effort": "low"}}, None),
            ({"content": [{"type": "text", "text": "b"}, {"type": "tool_removal"}]}, "messages.1.content.1"),
            ({"content": [{"type": "tool_use"}]}, "messages.1.content.0"),
        ],
    )
    def test_the_system_says_words(self, turn: dict[str, object], named: str | None) -> None:
        found = messages(messages=[{"role": "user", "content": "a"}, {"role": "system", **turn}]).fields["messages"]
        assert isinstance(found, Prompt)
        assert found.beyond_chat == named

    def test_an_answer_that_was_begun_is_beyond_it(self) -> None:
        found = messages(messages=[{"role": "user", "content": "a"}, {"role": "assistant", "content": "{"}]).fields["messages"]
        assert isinstance(found, Prompt)
        assert found.beyond_chat == "messages.1.role"


def test_unknown_members_keep_their_bytes() -> None:
    body = msgspec.json.encode({"container": {"id": 1.50}})
    assert messages(container={"id": 1.50}).members.value("container") == body[len(b'{"container":') : -1]
