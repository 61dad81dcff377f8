"""The providers of models, and suggestions for names that are not `PROVIDER:MODEL`."""

import re
from difflib import get_close_matches

#: The environment variables that may hold a provider's key, by the prefix of its model names. An
#: empty tuple means that the client library reads its credentials itself, or that none are needed.
KEY_VARIABLES: dict[str, tuple[str, ...]] = {
    "alibaba": ("ALIBABA_API_KEY", "DASHSCOPE_API_KEY"),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "azure": (),
    "bedrock": (),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cohere": ("CO_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "github": ("GITHUB_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "google-cloud": (),
    "groq": ("GROQ_API_KEY",),
    "heroku": ("HEROKU_INFERENCE_KEY",),
    "huggingface": ("HF_TOKEN",),
    "litellm": (),
    "mistral": ("MISTRAL_API_KEY",),
    "moonshotai": ("MOONSHOTAI_API_KEY",),
    "nebius": ("NEBIUS_API_KEY",),
    "ollama": (),
    "openai": ("OPENAI_API_KEY",),
    "openai-chat": ("OPENAI_API_KEY",),
    "openai-compatible": (),
    "openai-responses": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "ovhcloud": ("OVHCLOUD_API_KEY",),
    "sambanova": ("SAMBANOVA_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "vercel": ("VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN"),
    "vllm": (),
    "xai": ("XAI_API_KEY",),
    "zai": ("ZAI_API_KEY",),
}
#: Other prefixes that are accepted.
PROVIDER_ALIASES = {"gemini": "google", "google-gla": "google", "google-vertex": "google-cloud"}
_PROVIDERS = {name: name for name in KEY_VARIABLES} | PROVIDER_ALIASES
#: Models that need no provider.
BUILT_IN_MODELS = ("embedded", "local")
#: Prefixes of other libraries and names of products, which are not accepted.
_FOREIGN_PREFIXES = {
    "azure-openai": "azure",
    "chatgpt": "openai",
    "claude": "anthropic",
    "google-genai": "google",
    "googleai": "google",
    "gpt": "openai",
    "grok": "xai",
    "hf": "huggingface",
    "mistralai": "mistral",
    "moonshot": "moonshotai",
    "ollama-chat": "ollama",
    "vertex": "google-cloud",
    "vertex-ai": "google-cloud",
    "vertexai": "google-cloud",
    "x-ai": "xai",
}
#: How the names of a provider's models begin.
_FAMILIES = (
    (re.compile(r"gpt-|chatgpt-|o[134](?:-|$)|codex-"), "openai"),
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gemini-|gemma-"), "google"),
    (re.compile(r"grok-"), "xai"),
    (
        re.compile(r"(?:open-)?(?:mistral|mixtral|ministral|codestral|magistral|devstral)-"),
        "mistral",
    ),
    (re.compile(r"deepseek-(?:chat|reasoner|coder)"), "deepseek"),
    (re.compile(r"command-"), "cohere"),
    (re.compile(r"kimi-"), "moonshotai"),
    (re.compile(r"glm-"), "zai"),
    (re.compile(r"llama-?\d|qwen-?\d|phi-?\d|deepseek-"), "ollama"),
)
#: A prefix and the rest of a name, as this library and others separate them.
_PREFIXED = re.compile(r"\s*([^:/]+?)\s*[:/]\s*(.+?)\s*")
#: A reference to an environment variable, as a shell writes it.
_VARIABLE = re.compile(r"\$\w+|\$\{\w+\}")
_MIN_SIMILARITY = 0.7


def suggest_model(name: str) -> str:
    """Return the name that was probably meant, or an empty text if `name` is valid or unknown."""
    head, question, settings = name.partition("?")
    suggestion = _suggest(head)
    return suggestion + question + settings if suggestion and suggestion != head else ""


def has_thinking_conflict(name: str, *, temperature: float | None, thinking: str | None) -> bool:
    """Return True if a model of Anthropic would think with a temperature, which it rejects.

    Settings in the name, after `?`, count where none is given. A temperature of 1 is accepted.
    """
    head, _, query = name.partition("?")
    if _PROVIDERS.get(head.partition(":")[0]) != "anthropic":
        return False
    named = dict(pair.split("=", 1) for pair in query.split("&") if "=" in pair)
    thinks = (thinking or named.get("thinking") or "off") != "off"
    chosen = named.get("temperature") if temperature is None else str(temperature)
    return thinks and chosen is not None and chosen not in ("1", "1.0")


def _suggest(name: str) -> str:
    plain = name.strip().removeprefix("models/")
    if plain.startswith(("http://", "https://")):
        return f"openai-compatible:MODEL@{plain}"
    if _VARIABLE.fullmatch(plain):
        return "env:" + plain.strip("${}")
    prefix, _, model = name.partition(":")
    if (prefix in _PROVIDERS and model.strip()) or plain.partition(":")[0] in BUILT_IN_MODELS:
        prefix, colon, model = name.strip().partition(":")
        return f"{prefix}{colon}{model.strip()}"
    prefixed = _PREFIXED.fullmatch(plain)
    prefix, model = prefixed.groups() if prefixed else (plain.rstrip(":/ "), "")
    prefix = prefix.lower().replace("_", "-")
    providers = _PROVIDERS | _FOREIGN_PREFIXES
    if prefix in providers:
        return f"{providers[prefix]}:{model or 'MODEL'}"
    for family, provider in _FAMILIES:
        if family.match(plain.lower()):
            return f"{provider}:{plain}"
    similar = get_close_matches(
        prefix, providers if model else BUILT_IN_MODELS, 1, cutoff=_MIN_SIMILARITY
    )
    if not similar:
        return ""
    return f"{providers[similar[0]]}:{model}" if model else similar[0]
