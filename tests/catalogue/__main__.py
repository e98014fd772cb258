"""Write the catalogue of prices, and what the package that it is made of says of some of them: `make catalogue`.

Runs in an environment of its own: the package needs pydantic, which never enters the gateway's. Prices are written as a
configuration file writes them. What our file cannot say is told by name: prices of the time of day (the dearest counts), of
batches, regions and hours of sound.
"""

import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fnmatch import fnmatchcase
from hashlib import sha256
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from genai_prices import Usage
from genai_prices.data import providers as known

CATALOGUE = Path("gateway/config/catalogue.json")
SAMPLES = Path("tests/catalogue/samples.json")

PACKAGE = "genai-prices"

PRESETS = {
    "anthropic": ["anthropic"],
    "azure": ["azure"],
    "deepseek": ["deepseek"],
    "fireworks": ["fireworks"],
    "google": ["gemini"],
    "groq": ["groq"],
    "huggingface_nebius": ["nebius"],
    "mistral": ["mistral"],
    "openai": ["openai"],
    "openrouter": ["openrouter"],
    "together": ["together"],
    "x-ai": ["xai"],
}
"""Our presets by the package's names. The router's prices of a provider are that provider's."""

SAME_URL = {"openai-decisions"}
"""Known by another provider's URL: which of the two is meant, no URL tells."""

RATES = {
    "input_mtok": "input",
    "cache_read_mtok": "cached_input",
    "cache_write_mtok": "cache_write",
    "output_mtok": "output",
    "output_reasoning_mtok": "reasoning",
    "requests_kcount": "per_request",
}
TIERS = ("priority", "flex")

AN_HOUR = {"anthropic": Decimal(2)}
"""What a token costs that is cached for an hour, by the input's price, where the package does not say it. As of 2026-11-30:
https://platform.claude.com/docs/en/build-with-claude/prompt-caching"""

FINEST = Decimal("0.000001")
"""USD per million tokens, as fine as our files write them: a millionth is a thousandth of a nano-USD a token."""

Price = dict[str, Any]


def main() -> None:
    """Write both files, after the catalogue's names were found to mean what the package's do."""
    today = datetime.now(UTC).date()
    providers = {provider.id: source for provider in known if (source := entry(provider, today))["models"]}
    if wrong := list(differences(providers)):
        sys.exit("\n".join(wrong))
    content = sha256(json.dumps(providers, sort_keys=True).encode()).hexdigest()[:8]
    CATALOGUE.write_text(lines({"source": f"{PACKAGE} {version(PACKAGE)} (MIT)", "version": f"{today}-{content}"}, providers))
    SAMPLES.write_text("[\n" + ",\n".join(map(json.dumps, samples(providers, today))) + "\n]\n")
    print(f"{sum(len(source['models']) for source in providers.values())} models of {len(providers)} providers in {CATALOGUE}")


def lines(head: Price, providers: dict[str, Price]) -> str:
    """Return the catalogue as JSON, one line a model."""
    told = [f'"{name}": {json.dumps(value)}' for name, value in head.items()]
    sources = []
    for name, source in sorted(providers.items()):
        about = "".join(f'"{each}": {json.dumps(source[each])}, ' for each in ("presets", "urls", "like") if source[each])
        models = ",\n".join(json.dumps(model, separators=(",", ":")) for model in source["models"])
        sources.append(f'"{name}": {{{about}"models": [\n{models}\n]}}')
    return "{" + ", ".join(told) + ', "providers": {\n' + ",\n".join(sources) + "\n}}\n"


def entry(provider: Any, today: date) -> Price:
    """Return what the catalogue says of a provider: its models in the package's order, since the first that fits counts."""
    models = [found for model in provider.models if (found := listed(model, today)) is not None]
    if (times := AN_HOUR.get(provider.id)) is not None:
        for price in (price for model in models for price in model["prices"]):
            kept_an_hour(price, times)
    url = None if provider.id in SAME_URL else prefix(provider.api_pattern)
    like = [each for each in provider.fallback_model_providers or () if each != provider.id]
    return {"presets": PRESETS.get(provider.id, []), "urls": [] if url is None else [url], "like": like, "models": models}


def kept_an_hour(price: Price, times: Decimal) -> None:
    """Add what caching for an hour costs to a price, its steps and its tiers, wherever caching has a price."""
    for part in (price, *price.get("steps", ()), *price.get("tiers", {}).values()):
        if "cache_write" in part and "input" in part:
            part["cache_write_1h"] = f"{(Decimal(part['input']) * times).normalize():f}"


def prefix(pattern: str) -> str | None:
    """Return the glob of the base URLs that a pattern is for, None for one that is no plain prefix."""
    plain = re.sub(r"\(\?:/\|\$\)$|\(/\|\$\)$", "", pattern).replace("\\.", ".")
    return None if set(plain) & set("\\()[]?+*^$|") else f"{plain}*"


def listed(model: Any, today: date) -> Price | None:
    """Return one model's line, None where it is not priced by the token or nothing can tell its name."""
    names = [name for name in clauses(model.match) if name is not None]
    prices = eras(model, today)
    if not prices or all(name.startswith("!") for name in names):
        return None
    window = {} if not model.context_window else {"context_window": model.context_window}
    return {"id": model.id, "names": [*dict.fromkeys(names)], **window, "prices": prices}


def clauses(match: Any) -> Iterator[str | None]:
    """Yield the globs that a rule is, None for a part that no glob can say."""
    kind = type(match).__name__
    if kind in ("ClauseOr", "ClauseAnd"):
        for each in match.or_ if kind == "ClauseOr" else match.and_:
            yield from clauses(each)
    elif kind == "ClauseRegex":
        yield from globbed(match.regex)
    else:
        text = escaped(next(iter(vars(match).values())).lower())
        yield {"ClauseEquals": "{}", "ClauseStartsWith": "{}*", "ClauseEndsWith": "*{}", "ClauseContains": "*{}*"}[kind].format(
            text
        )


def globbed(regex: str) -> Iterator[str | None]:
    """Yield the globs of a regular expression: those of optional groups come with and without."""
    if regex == r"^(?!.*-[tT][tT][sS](?:$|-))":
        yield from ("!*-tts", "!*-tts-*")
        return
    if optional := re.search(r"\(([^()|?]+)\)\?", regex):
        for each in ("", optional[1]):
            yield from globbed(regex[: optional.start()] + each + regex[optional.end() :])
        return
    rest = re.sub(r"\\d\{(\d+)\}", lambda found: "[0-9]" * int(found[1]), regex).replace("\\d", "[0-9]")
    rest = rest.replace("\\[", "[[]").replace("\\]", "]").replace("\\.", ".")
    plain = rest.replace("[0-9]", "").replace("[-@]", "").replace("[[]", "").removeprefix("^").removesuffix("$")
    if not rest.startswith("^") or set(plain) & set("\\()?+*^$|[{"):
        yield None
    else:
        yield rest[1:-1] if rest.endswith("$") else rest[1:] + "*"


def escaped(text: str) -> str:
    """Return a text as a glob that means itself."""
    return re.sub(r"([*?[])", r"[\1]", text)


def eras(model: Any, today: date) -> list[Price]:
    """Return the price in force and those to come. The first holds from ever, and tells since when it is known."""
    conditional = model.prices if isinstance(model.prices, list) else []
    dated = (getattr(each.constraint, "start_date", None) for each in (*conditional, *(model.price_variants or ())))
    days = {day for day in dated if day is not None}
    started = max((day for day in days if day <= today), default=None)
    found = [(day, price_at(model, day or today)) for day in (started, *sorted(day for day in days if day > today))]
    if found[0][1] is None:
        return []
    changes = [next(same) for _, same in groupby(found, key=lambda era: era[1])]
    return [{**(price or {}), **({} if day is None else {"from": str(day)})} for day, price in changes]


def price_at(model: Any, day: date) -> Price | None:
    """Return what holds on a day."""
    base = rates(standard(model, day))
    if "input" not in base:
        return None
    tiers = {}
    for tier in TIERS:
        own = rates(model.get_prices(noon(day), {"service_tier": tier}))
        if own != rates(model.get_prices(noon(day))):
            tiers[tier] = own
    return {**base, **({"tiers": tiers} if tiers else {})}


def standard(model: Any, day: date) -> Any:
    """Return the prices of a day, those of its dearest hour."""
    hours = (model.get_prices(noon(day) + timedelta(hours=hour - 12)) for hour in range(24))
    return max(hours, key=lambda prices: sum(lowest(getattr(prices, name)) for name in ("input_mtok", "output_mtok")))


def lowest(price: Any) -> Decimal:
    """Return a price outside of all steps."""
    return Decimal(0) if price is None else getattr(price, "base", price)


def noon(day: date) -> datetime:
    """Return the middle of a day."""
    return datetime(day.year, day.month, day.day, 12, tzinfo=UTC)


def rates(prices: Any) -> Price:
    """Return prices as a configuration file writes them."""
    told = {ours: price for theirs, ours in RATES.items() if (price := getattr(prices, theirs)) is not None}
    if "input" not in told:
        return {}
    found: Price = {name: usd(lowest(price), name) for name, price in told.items()}
    found.setdefault("output", "0")
    starts = sorted({tier.start for price in told.values() for tier in getattr(price, "tiers", ())})
    steps = []
    for start in starts:
        changed = {n: usd(t.price, n) for n, price in told.items() for t in getattr(price, "tiers", ()) if t.start == start}
        steps.append({"above": start, **changed})
    return {**found, **({"steps": steps} if steps else {})}


def usd(amount: Decimal, name: str) -> str:
    """Return an amount without zeros at its end: per million tokens, or of one request."""
    exact = amount / 1000 if name == "per_request" else amount.quantize(FINEST, ROUND_HALF_UP)
    text = f"{exact:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def differences(providers: dict[str, Price]) -> Iterator[str]:
    """Yield the names that mean one model to the package and another one to the catalogue."""
    for provider in known:
        if provider.id not in providers:
            continue
        models = providers[provider.id]["models"]
        ids = {model["id"] for model in models}
        for name in {ref for model in provider.models for ref in references(model)}:
            theirs = provider.find_model(name)
            ours = next(
                (
                    each["id"]
                    for each in models
                    if any(fnmatchcase(name, n) for n in each["names"] if n[0] != "!")
                    and not any(fnmatchcase(name, n[1:]) for n in each["names"] if n[0] == "!")
                ),
                None,
            )
            if theirs is not None and theirs.id in ids and theirs.id != ours:
                yield f"{provider.id}: '{name}' is {theirs.id}, and {ours} in the catalogue"


def references(model: Any) -> Iterator[str]:
    """Yield names that a model is meant by."""
    yield model.id.lower()
    for name in clauses(model.match):
        if name is not None and name[0] != "!":
            yield name.replace("[0-9]", "7").replace("[-@]", "@").replace("[[]", "[").replace("*", "")
            yield name.replace("[0-9]", "7").replace("[-@]", "@").replace("[[]", "[").replace("*", "-x")


SAMPLED = (
    *(("openai", name) for name in ("gpt-4o", "gpt-5", "gpt-5.5", "gpt-6-luna", "text-embedding-3-small")),
    *(("anthropic", name) for name in ("claude-haiku-4-5", "claude-haiku-5-5-20261001", "claude-sonnet-4-5", "claude-opus-5")),
    *(("groq", "llama-3.3-70b-versatile"), ("google", "gemini-2.5-pro"), ("mistral", "mistral-large-latest")),
    *(("x-ai", "grok-4.3"), ("perplexity", "sonar-deep-research"), ("openrouter", "openai/gpt-5.5")),
)
USAGES = ((1_000, 0, 0, 100), (150_000, 100_000, 20_000, 2_000), (300_001, 1, 0, 5))
"""Input tokens, those cached and those cached anew among them, and output tokens."""


def samples(providers: dict[str, Price], today: date) -> Iterator[Price]:
    """Yield what the package says that some requests cost, in nano-USD."""
    by_id = {provider.id: provider for provider in known}
    for name, model_name in SAMPLED:
        model = by_id[name].find_model(model_name)
        if model is None or model.id not in {each["id"] for each in providers[name]["models"]}:
            sys.exit(f"{name} has no {model_name} to take a sample of")
        for tokens, cached, written, output in USAGES:
            for tier in (None, *TIERS):
                prices = model.get_prices(noon(today), None if tier is None else {"service_tier": tier})
                if tier is not None and prices == model.get_prices(noon(today)):
                    continue
                counts = Usage(input_tokens=tokens, cache_read_tokens=cached, cache_write_tokens=written, output_tokens=output)
                cost = prices.calc_price(counts)["total_price"] * 10**9
                told = {"input": tokens, "cached": cached, "cache_write": written, "output": output}
                yield {"provider": name, "model": model_name, "tier": tier, "usage": told, "nano_usd": str(cost.normalize())}


if __name__ == "__main__":
    main()
