"""What the prefix of a model's name says of where it is served, as our presets and dialects have it."""

from collections.abc import Mapping

import msgspec


class Vendor(msgspec.Struct, frozen=True, kw_only=True):
    """One prefix. `key` and `base` are the variables that are read where an entry says neither.

    `path` is what a base URL ends in here and not there; `model` what a short name begins with at the provider. Where
    `is_yours`, the base URL is the operator's own.
    """

    preset: str | None = None
    base_url: str | None = None
    key: str | None = None
    base: str | None = None
    path: str = ""
    model: str = ""
    endpoints: tuple[str, ...] = ()
    is_yours: bool = False
    note: str = ""


def _own(key: str | None, base: str | None, *, preset: str | None = None, base_url: str | None = None, path: str = "") -> Vendor:
    return Vendor(preset=preset, key=key, base=base, base_url=base_url, path=path, is_yours=True, endpoints=EVERY)


EVERY = ("chat", "completions", "embeddings")

VENDORS: Mapping[str, Vendor] = {
    "openai": Vendor(preset="openai", key="OPENAI_API_KEY"),
    "text-completion-openai": Vendor(base_url="https://api.openai.com/v1", key="OPENAI_API_KEY", endpoints=("completions",)),
    "azure": Vendor(preset="azure", key="AZURE_API_KEY", base="AZURE_API_BASE", is_yours=True),
    "anthropic": Vendor(preset="anthropic", key="ANTHROPIC_API_KEY", path="/v1"),
    "groq": Vendor(preset="groq", key="GROQ_API_KEY"),
    "together_ai": Vendor(preset="together", key="TOGETHERAI_API_KEY"),
    "fireworks_ai": Vendor(preset="fireworks", key="FIREWORKS_API_KEY", model="accounts/fireworks/models/"),
    "openrouter": Vendor(preset="openrouter", key="OPENROUTER_API_KEY"),
    "mistral": Vendor(preset="mistral", key="MISTRAL_API_KEY"),
    "deepseek": Vendor(preset="deepseek", key="DEEPSEEK_API_KEY"),
    "xai": Vendor(preset="xai", key="XAI_API_KEY"),
    "gemini": Vendor(preset="gemini", key="GEMINI_API_KEY", note="asked at Google's OpenAI endpoint, not at its own"),
    "deepinfra": Vendor(preset="deepinfra", key="DEEPINFRA_API_KEY"),
    "nebius": Vendor(preset="nebius", key="NEBIUS_API_KEY", note="asked at the address that its preset has"),
    "perplexity": Vendor(base_url="https://api.perplexity.ai", key="PERPLEXITYAI_API_KEY"),
    "cerebras": Vendor(base_url="https://api.cerebras.ai/v1", key="CEREBRAS_API_KEY"),
    "sambanova": Vendor(base_url="https://api.sambanova.ai/v1", key="SAMBANOVA_API_KEY"),
    "nvidia_nim": Vendor(base_url="https://integrate.api.nvidia.com/v1", key="NVIDIA_NIM_API_KEY"),
    "moonshot": Vendor(base_url="https://api.moonshot.ai/v1", key="MOONSHOT_API_KEY"),
    "hyperbolic": Vendor(base_url="https://api.hyperbolic.xyz/v1", key="HYPERBOLIC_API_KEY"),
    "ollama": _own(None, "OLLAMA_API_BASE", preset="ollama", base_url="http://localhost:11434/v1", path="/v1"),
    "ollama_chat": _own(None, "OLLAMA_API_BASE", preset="ollama", base_url="http://localhost:11434/v1", path="/v1"),
    "hosted_vllm": _own("HOSTED_VLLM_API_KEY", "HOSTED_VLLM_API_BASE", preset="vllm"),
    "vllm": _own("HOSTED_VLLM_API_KEY", "HOSTED_VLLM_API_BASE", preset="vllm"),
    "lm_studio": _own("LM_STUDIO_API_KEY", "LM_STUDIO_API_BASE"),
    "llamafile": _own("LLAMAFILE_API_KEY", "LLAMAFILE_API_BASE"),
    "litellm_proxy": _own("LITELLM_PROXY_API_KEY", "LITELLM_PROXY_API_BASE"),
    "openai_like": _own("OPENAI_LIKE_API_KEY", "OPENAI_LIKE_API_BASE"),
    "custom_openai": _own("OPENAI_API_KEY", None),
}
"""Those that speak a dialect of ours. Any other prefix is not importable."""

NATIVE: Mapping[str, str] = {
    "bedrock": "Amazon's native API",
    "sagemaker": "Amazon's native API",
    "vertex_ai": "Google's native API",
    "vertex_ai_beta": "Google's native API",
    "cohere": "Cohere's native API",
    "cohere_chat": "Cohere's native API",
    "azure_ai": "Azure's inference API",
    "replicate": "Replicate's native API",
    "huggingface": "Hugging Face's native API",
    "watsonx": "watsonx's native API",
    "databricks": "Databricks' native API",
    "palm": "Google's native API",
}

_BARE = {
    "openai": ("gpt-", "o1", "o3", "o4", "chatgpt-", "text-embedding-", "ft:gpt-"),
    "anthropic": ("claude-",),
}
"""Names without a prefix whose provider everybody knows."""


def split(model: str, provider: str | None) -> tuple[str | None, str]:
    """Return the prefix that a deployment's model has, or what `provider` or its bare name says, and the name at the provider."""
    prefix, slash, rest = model.partition("/")
    if provider is not None:
        return provider, rest if slash and prefix == provider else model
    if slash and (prefix in VENDORS or prefix in NATIVE):
        return prefix, rest
    if not slash:
        return next((vendor for vendor, begins in _BARE.items() if model.startswith(begins)), None), model
    return prefix, rest
