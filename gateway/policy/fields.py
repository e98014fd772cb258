"""Which values of a body are bad though their shape is right: told together with those whose shape is not (decision 30). Pure."""

from collections.abc import Callable, Container, Iterator, Mapping

from gateway.faults import FieldError
from gateway.policy.catalogue import Key
from gateway.policy.tiers import unknown_word
from gateway.wire.prompts import Prompt


def bad_values(key: Key, names: Container[str]) -> Callable[[Mapping[str, object]], Iterator[FieldError]]:
    """Return what finds the bad values in the fields of a request by this key; `names` are those of models and aliases."""

    def found_in(fields: Mapping[str, object]) -> Iterator[FieldError]:
        entries, word, prompt = fields.get("models"), fields.get("service_tier"), fields.get("prompt")
        if isinstance(entries, tuple):
            yield from bad_entries(entries, names)
        if isinstance(word, str) and (bad := unknown_word(word)) is not None:
            yield bad
        if isinstance(prompt, Prompt) and prompt.prompts > key.max_prompts:
            yield FieldError(("body", "prompt"), f"List should have at most {key.max_prompts} items", "too_long")

    return found_in


def bad_entries(models: tuple[str, ...], names: Container[str]) -> Iterator[FieldError]:
    """Yield the entries of `models` that are no plain names: `deploy_id:`, addresses, revisions, unless exactly so registered."""
    for place, name in enumerate(models):
        if ":" in name and name not in names:
            text = "Input should be a plain model name, without a deployment, an address or a revision"
            yield FieldError(("body", "models", place), text, "value_error")
