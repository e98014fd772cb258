"""Which fields a request body may hold and what they may be: the superset of the published contracts (wire contract, section 4).

One line a field. A field that an endpoint's table does not name is unknown there: it is not looked at, and providers may be set
to get none of those. What the key or the model allows beyond this is decided elsewhere. Pure.
"""

from collections.abc import Mapping

from gateway.wire.items import items
from gateway.wire.prompts import conversation, inputs, prompt
from gateway.wire.readers import (
    Reader,
    anything,
    filled_text,
    flag,
    integer,
    list_of,
    number,
    object_of,
    one_of,
    text,
    unambiguous,
)
from gateway.wire.shapes import logit_bias, model_list, response_format, stops, thinking
from gateway.wire.turns import system, turns

MOST_OUTPUT_TOKENS = 10_000_000
MOST_CHOICES = 128
MOST_DIMENSIONS = 1_000_000
MOST_STOPS = 128
"""What a model can be said to take at the most."""

SHARED: Mapping[str, Reader[object]] = {
    "model": text,
    "models": model_list,
    "fail_fast": flag,
    "service_tier": text,
    "stream": flag,
    "stream_options": unambiguous(object_of(include_usage=flag, continuous_usage_stats=flag)),
    "max_tokens": integer(1, MOST_OUTPUT_TOKENS),
    "max_completion_tokens": integer(1, MOST_OUTPUT_TOKENS),
    "n": integer(1, MOST_CHOICES),
    "best_of": integer(1, MOST_CHOICES),
    "stop": stops,
    "temperature": number(0, 2),
    "top_p": number(0, 1),
    "presence_penalty": number(-2, 2),
    "frequency_penalty": number(-2, 2),
    "logit_bias": logit_bias,
    "seed": integer(-(2**63), 2**64 - 1),
    "user": text,
    "store": flag,
    "metadata": anything,
    "response_format": response_format,
    "prompt_cache_key": text,
}

CHAT: Mapping[str, Reader[object]] = {
    **SHARED,
    "messages": conversation,
    "logprobs": flag,
    "top_logprobs": integer(0, 20),
    "tools": list_of(object_of()),
    "tool_choice": anything,
    "parallel_tool_calls": flag,
    "functions": list_of(object_of()),
    "function_call": anything,
    "reasoning_effort": one_of("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "verbosity": anything,
    "modalities": anything,
    "audio": anything,
    "prediction": anything,
    "web_search_options": anything,
    "prompt_cache_retention": anything,
    "safety_identifier": anything,
}

COMPLETIONS: Mapping[str, Reader[object]] = {
    **SHARED,
    "prompt": prompt,
    "logprobs": integer(0),
    "echo": flag,
    "suffix": text,
    "min_p": number(0, 1),
    "top_k": integer(0),
    "repetition_penalty": number(0.01, 5),
    "stop_token_ids": list_of(integer(0), 16),
    "return_tokens_as_token_ids": flag,
    "ignore_eos": flag,
    "prompt_cache_options": object_of(mode=one_of("explicit", "implicit"), ttl=one_of("5m", "1h")),
    "data": object_of(image=list_of(filled_text), video=list_of(filled_text)),
}

EMBEDDINGS: Mapping[str, Reader[object]] = {
    **{name: SHARED[name] for name in ("model", "models", "fail_fast", "service_tier", "user")},
    "input": inputs,
    "prompt_cache_key": text,
    "encoding_format": one_of("float", "base64"),
    "dimensions": integer(1, MOST_DIMENSIONS),
}

MESSAGES: Mapping[str, Reader[object]] = {
    **{name: SHARED[name] for name in ("model", "models", "fail_fast", "service_tier", "stream", "max_tokens", "top_p")},
    "messages": turns,
    "system": system,
    "tools": list_of(object_of(type=text, name=text)),
    "tool_choice": object_of(type=text, name=text, disable_parallel_tool_use=flag),
    "stop_sequences": list_of(filled_text, MOST_STOPS),
    "temperature": number(0, 1),
    "top_k": integer(0),
    "metadata": object_of(user_id=text),
    "thinking": thinking,
    "output_config": object_of(effort=text, format=object_of(type=text)),
}

SHARED_BY_RESPONSES = (
    "model",
    "models",
    "fail_fast",
    "service_tier",
    "stream",
    "temperature",
    "top_p",
    "user",
    "store",
    "metadata",
)

RESPONSES: Mapping[str, Reader[object]] = {
    **{name: SHARED[name] for name in (*SHARED_BY_RESPONSES, "prompt_cache_key")},
    "input": items,
    "instructions": text,
    "max_output_tokens": integer(1, MOST_OUTPUT_TOKENS),
    "stream_options": object_of(include_obfuscation=flag),
    "background": flag,
    "previous_response_id": text,
    "conversation": anything,
    "tools": list_of(object_of(type=text)),
    "tool_choice": anything,
    "parallel_tool_calls": flag,
    "max_tool_calls": integer(1),
    "reasoning": object_of(),
    "text": object_of(),
    "include": list_of(text),
    "truncation": one_of("auto", "disabled"),
    "top_logprobs": integer(0, 20),
    "safety_identifier": anything,
    "prompt_cache_retention": anything,
}

COUNTED: Mapping[str, Reader[object]] = {
    name: MESSAGES[name]
    for name in ("model", "models", "messages", "system", "tools", "tool_choice", "thinking", "output_config")
}
"""What a request may hold whose tokens are only counted."""

REFUSED_IN_EXTRA_BODY = frozenset(
    {
        "model",
        "models",
        "messages",
        "prompt",
        "input",
        "stream",
        "stream_options",
        "service_tier",
        "fail_fast",
        "n",
        "best_of",
        "max_tokens",
    }
    | {"max_completion_tokens", "max_output_tokens", "background", "extra_body"}
)
"""What steers or prices a request may not hide in `extra_body`."""
