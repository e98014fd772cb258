"""Write a model of llama's kind that knows nothing: random weights from one seed, a vocabulary of bytes and syllables, 0.6 MB.

What it says is noise, the same each time at temperature 0: what a gateway is held to is how words travel, not which. Half of the
tokens are single bytes, so that characters are split between tokens as they are by real models. The file's format:
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (version 3, little-endian). It needs nothing but Python.
"""

import random
import struct
from array import array
from collections.abc import Iterator, Sequence

SEED = 20_26
CONTEXT_TOKENS = 4096
WIDTH, HEADS, KEY_HEADS, INNER, LAYERS = 64, 4, 2, 128, 2
UNKNOWN, BEGIN, END = 0, 1, 2
CONTROL_TOKENS = ("<unk>", "<s>", "</s>")
CALL = 3
"""The token that a call of a tool begins with."""


ALIGNMENT_BYTES = 32
UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5
"""Types of a value in the head."""

TENSOR_F32 = 0

TEMPLATE = """\
{% if tools %}[tools]{% for tool in tools %}
{{ tool | tojson }}{% endfor %}
[end]
{% endif %}\
{% for message in messages %}\
[{{ message.role }}] {{ message.content or '' }}\
{% for call in message.tool_calls or [] %}\
<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>{% endfor %}[end]
{% endfor %}\
{% if add_generation_prompt %}[assistant] {% endif %}"""
"""How a conversation is put to the model. A call of a tool is written so that llama.cpp finds out how to hold the model to it."""

Value = int | float | str | Sequence[int] | Sequence[float] | Sequence[str]


def vocabulary() -> list[tuple[str, float, int]]:
    """Return each token's text, its score and its kind: 2 unknown, 3 control, 4 one that is never split, 6 a byte, 1 a piece."""
    control = [(text, 0.0, 2 if place == UNKNOWN else 3) for place, text in enumerate(CONTROL_TOKENS)]
    single = [(f"<0x{byte:02X}>", 0.0, 6) for byte in range(256)]
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    pieces = [*syllables, *("▁" + syllable for syllable in syllables), "▁", *",.!?", *"abcdefghijklmnopqrstuvwxyz"]
    return [*control, ("<tool_call>", 0.0, 4), *single, *((piece, -float(place), 1) for place, piece in enumerate(pieces))]


def shapes(tokens: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Return the tensors' names and dimensions, the one that varies fastest first."""
    key_width = WIDTH // HEADS * KEY_HEADS
    yield from (("token_embd.weight", (WIDTH, tokens)), ("output_norm.weight", (WIDTH,)), ("output.weight", (WIDTH, tokens)))
    for layer in range(LAYERS):
        parts = {
            "attn_norm": (WIDTH,),
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (WIDTH, key_width),
            "attn_v": (WIDTH, key_width),
            "attn_output": (WIDTH, WIDTH),
            "ffn_norm": (WIDTH,),
            "ffn_gate": (WIDTH, INNER),
            "ffn_up": (WIDTH, INNER),
            "ffn_down": (INNER, WIDTH),
        }
        yield from ((f"blk.{layer}.{name}.weight", shape) for name, shape in parts.items())


def weights(name: str, shape: tuple[int, ...], dice: random.Random) -> "array[float]":
    """Return a tensor's numbers: norms are ones; the rest is random, widest at both ends."""
    count = 1
    for dimension in shape:
        count *= dimension
    if "norm" in name:
        return array("f", [1.0] * count)
    spread = 0.05 if name.startswith("blk.") else 0.4
    return array("f", (dice.gauss(0.0, spread) for _ in range(count)))


def make_eager(name: str, numbers: "array[float]") -> None:
    """Make the model want to end more than anything, and next to that to call a tool.

    Where a call is required a grammar forbids the end before it and noise within it, and so the model calls once and ends. Every
    token has the same large first number, no layer changes it, and the two wanted tokens alone heed it.
    """
    if name == "token_embd.weight":
        numbers[::WIDTH] = array("f", [4.0] * (len(numbers) // WIDTH))
    elif name == "output.weight":
        numbers[CALL * WIDTH], numbers[END * WIDTH] = 20.0, 40.0
    elif name.endswith("attn_output.weight"):
        numbers[:WIDTH] = array("f", [0.0] * WIDTH)
    elif name.endswith("ffn_down.weight"):
        numbers[:INNER] = array("f", [0.0] * INNER)


def text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def typed(value: Value) -> tuple[int, bytes]:
    """Return a value's type and its bytes."""
    if isinstance(value, str):
        return STRING, text(value)
    if isinstance(value, int):
        return UINT32, struct.pack("<I", value)
    if isinstance(value, float):
        return FLOAT32, struct.pack("<f", value)
    items = [typed(item) for item in value]
    kind = INT32 if items[0][0] == UINT32 else items[0][0]
    return ARRAY, struct.pack("<IQ", kind, len(items)) + b"".join(encoded for _, encoded in items)


def settings() -> dict[str, Value]:
    """Return what the head says of the model."""
    tokens = vocabulary()
    return {
        "general.architecture": "llama",
        "general.name": "noise",
        "llama.context_length": CONTEXT_TOKENS,
        "llama.embedding_length": WIDTH,
        "llama.block_count": LAYERS,
        "llama.feed_forward_length": INNER,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KEY_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": WIDTH // HEADS,
        "llama.vocab_size": len(tokens),
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [token for token, _, _ in tokens],
        "tokenizer.ggml.scores": [score for _, score, _ in tokens],
        "tokenizer.ggml.token_type": [kind for _, _, kind in tokens],
        "tokenizer.ggml.unknown_token_id": UNKNOWN,
        "tokenizer.ggml.bos_token_id": BEGIN,
        "tokenizer.ggml.eos_token_id": END,
        "tokenizer.chat_template": TEMPLATE,
    }


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % ALIGNMENT_BYTES)


def model(*, eager: bool = False) -> bytes:
    """Return the whole file, of the model that says noise or of the one that is eager to call tools."""
    dice = random.Random(SEED)
    head, tensors, body = [], [], b""
    for key, value in settings().items():
        kind, encoded = typed(value)
        head.append(text(key) + struct.pack("<I", kind) + encoded)
    for name, shape in shapes(len(vocabulary())):
        dimensions = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        tensors.append(text(name) + dimensions + struct.pack("<IQ", TENSOR_F32, len(body)))
        numbers = weights(name, shape, dice)
        if eager:
            make_eager(name, numbers)
        body += padded(numbers.tobytes())
    counts = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(head))
    return padded(counts + b"".join(head) + b"".join(tensors)) + body
