from click.testing import CliRunner

from gateway.cli import tiergate
from gateway.config.presets import presets


def test_each_preset_is_a_line_that_says_what_it_goes_by() -> None:
    result = CliRunner().invoke(tiergate, ["presets"], obj={})
    assert result.exit_code == 0
    head, *lines = result.stdout.splitlines()
    assert head.split("  ")[0] == "preset"
    assert [line.split()[0] for line in lines] == sorted(presets())
    shown = {line.split()[0]: " ".join(line.split()[1:]) for line in lines}
    assert shown["groq"] == (
        "https://api.groq.com/openai/v1 chat default: on_demand, priority: performance, flex: flex "
        "2026-11-30, not run: https://console.groq.com/docs/service-tiers"
    )
    assert shown["llama.cpp"].startswith("your own chat, completions, embeddings, responses - 2026-11-30, run: https://")
