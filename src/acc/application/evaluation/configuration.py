"""Validate the options of an evaluation and turn them into its configuration."""

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec

from acc.application.memory.registry import MEMORIES, budget_tokens, split_budget, suggest_memory
from acc.domain.ccs import MIN_BUDGET_TOKENS
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.endpoint import check_agent_url
from acc.domain.value_objects.evaluation import ClaimThreshold
from acc.domain.value_objects.evaluation_run import (
    RULE_COMPRESSOR,
    AgentChoice,
    EvaluationConfig,
    JudgeConfig,
    ScenarioChoice,
)

#: The memory of each built-in agent; `baseline` is transcript replay.
AGENT_KINDS = {"baseline": "transcript", **{name: name for name in MEMORIES}}
#: `--agents equal-budget`: every memory at the budget of `acc`, and the bounds without a budget.
EQUAL_BUDGET = "equal-budget"
_BUDGETED = ("transcript", "last-n", "retrieval", "bm25", "summary", "acc")
MODEL_JUDGE = "model:"
#: Providers whose models return the probabilities of tokens.
_HAVE_TOKEN_PROBABILITIES = (
    "local",
    "openai",
    "openai-chat",
    "openai-compatible",
    "openai-responses",
)
#: Separates the models of `model:A,model:B`; the name of a model may contain a comma.
_SEVERAL_JUDGES = re.compile(r",model:")
PYTHON_REFERENCE = "python:"
REMOTE_REFERENCE = "a2a:"
COMPRESSOR_REFERENCE = "acc:"
#: References to agents of other frameworks begin with these names: `langgraph:MODULE:NAME`.
FRAMEWORK_PREFIXES = ("langgraph", "pydantic-ai", "openai-agents", "google-adk", "agent-framework")
#: `openai:URL#MODEL` is a model behind an OpenAI-compatible server.
CHAT_PREFIX = "openai"
MAX_VOTES = 25
_MODULE_AND_NAME = re.compile(r"[\w./]+:\w+")
_DEFAULT_BUDGET = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """Options of a model judge; `force` accepts a model that is known to be too small."""

    votes: int = 1
    both_orders: bool = False
    temperature: float = 0.0
    drives: bool = False
    probabilities: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRequest:
    """Unchecked options of an evaluation."""

    scenario: str = "all"
    #: A log whose conversations replace the scenarios, its format, and a file of annotations.
    replay: str = ""
    replay_format: str = ""
    annotations: str = ""
    agents: str = "baseline,retrieval,acc,oracle"
    model: str = "embedded"
    compressor: str = RULE_COMPRESSOR
    judge: str = "rubric"
    judge_options: JudgeOptions = field(default_factory=JudgeOptions)
    episodes: int = 2
    turns: int | None = None
    seed: int = 0
    window: int = 4096
    budget: int = _DEFAULT_BUDGET
    timeout: float | None = 60.0
    #: Thresholds of the rubric judge; empty for those of the shipped examples.
    claim_thresholds: tuple[ClaimThreshold, ...] = ()


class ConfigurationSources(Protocol):
    """What a configuration refers to: models, user code, scenarios, prompts of the judge."""

    def check_model_name(self, name: str) -> None:
        """Raise InvalidInput if no model has this name; keys and libraries are not checked."""
        ...

    def check_model(self, name: str) -> None:
        """Raise InvalidInput if a model cannot be created."""
        ...

    def names(self, name: str) -> tuple[str, ...]:
        """Return the models that a name lists, with environment variables resolved."""
        ...

    def check_object(self, reference: str) -> None:
        """Raise InvalidInput if `MODULE:NAME` cannot be loaded."""
        ...

    def is_model_object(self, reference: str) -> bool:
        """Return True if `MODULE:NAME` is a model, False if it is a judge, or raise."""
        ...

    def shipped_scenarios(self) -> tuple[str, ...]:
        """Return the ids of the shipped scenarios."""
        ...

    def scenario(self, reference: str) -> ScenarioChoice:
        """Return a validated scenario by id or path."""
        ...

    def replays(self, path: str, form: str, annotations: str) -> tuple[ScenarioChoice, ...]:
        """Return the conversations of a log as scenarios; empty texts for what is not given."""
        ...

    def claim_thresholds(self) -> tuple[ClaimThreshold, ...]:
        """Return the thresholds of the rubric judge, from labelled examples."""
        ...

    def judge_config(
        self,
        model: str,
        temperature: float | None,
        options: JudgeOptions,
        others: Sequence[str] = (),
    ) -> JudgeConfig:
        """Return the configuration of a model judge with the prompts of this version."""
        ...


class EvaluationConfigurator:
    """Creates configurations from options."""

    def __init__(self, sources: ConfigurationSources, *, version: str) -> None:
        self._sources = sources
        self._version = version

    def configure(self, request: EvaluationRequest) -> EvaluationConfig:
        """Return the configuration, or raise InvalidInput that names the wrong option."""
        for name, value, minimum in (
            ("episodes", request.episodes, 1),
            ("turns", request.turns, 1),
            ("window", request.window, 64),
            ("budget", request.budget, MIN_BUDGET_TOKENS),
            ("timeout", request.timeout, 0.001),
            ("seed", request.seed, 0),
        ):
            if value is not None and not minimum <= value < math.inf:
                raise InvalidInput(f"--{name} must be at least {minimum}, got {value}")
        agents = self.agents(request.agents, budget=request.budget)
        self._sources.check_model_name(request.model)
        self._check_compressor(request.compressor)
        judging = self.judge(request.judge, request.judge_options)
        return EvaluationConfig(
            version=self._version,
            scenarios=self._conversations(request),
            agents=agents,
            model=request.model,
            judge=request.judge,
            episodes=request.episodes,
            turns=request.turns,
            seed=request.seed,
            window=request.window,
            budget=request.budget,
            timeout=request.timeout,
            compressor=request.compressor,
            judging=judging,
            claim_thresholds=self._thresholds(request.judge, judging, request.claim_thresholds),
        )

    def judged_again(
        self,
        recorded: EvaluationConfig,
        judge: str,
        options: JudgeOptions,
        claim_thresholds: tuple[ClaimThreshold, ...] = (),
    ) -> EvaluationConfig:
        """Return the configuration of a run whose answers another judge scores.

        A scenario whose text changed since then is rejected: its annotations may not fit.
        """
        self._check_scenarios(recorded)
        judging = self.judge(judge, options)
        return replace(
            recorded,
            version=self._version,
            judge=judge,
            judging=judging,
            claim_thresholds=self._thresholds(judge, judging, claim_thresholds),
        )

    def with_agents(self, recorded: EvaluationConfig, agents: str) -> EvaluationConfig:
        """Return the configuration of a run with more agents; `agents` names only these."""
        if recorded.judging is not None and recorded.judging.drives:
            raise InvalidInput("the judge wrote the queries of this run; start a new evaluation")
        self._check_scenarios(recorded)
        added = self.agents(agents, budget=recorded.budget)
        names = {agent.name for agent in recorded.agents}
        if known := [agent.name for agent in added if agent.name in names]:
            raise InvalidInput(
                f"the run has an agent {known[0]!r} already; give the new one another name, such "
                f"as {known[0]}-2={added[0].kind}"
            )
        return replace(recorded, agents=(*recorded.agents, *added))

    def _check_scenarios(self, recorded: EvaluationConfig) -> None:
        for known in recorded.scenarios:
            if known.digest != self._sources.scenario(known.reference).digest:
                raise InvalidInput(
                    f"the text of scenario {known.id!r} has changed since the run, so its "
                    "annotations may not fit the answers; restore the file, or start a new run"
                )

    def _thresholds(
        self, judge: str, judging: JudgeConfig | None, given: tuple[ClaimThreshold, ...]
    ) -> tuple[ClaimThreshold, ...]:
        """Return the given thresholds, and those of the shipped examples for other languages.

        The shipped examples have no thresholds for the probabilities of models.
        """
        if judge != "rubric":
            if given and not (judging and judging.probabilities):
                raise InvalidInput(
                    "--claim-thresholds requires --judge rubric or --judge-probabilities"
                )
            return given
        languages = {threshold.language for threshold in given}
        shipped = self._sources.claim_thresholds()
        return (*given, *(one for one in shipped if one.language not in languages))

    def agents(self, text: str, *, budget: int = _DEFAULT_BUDGET) -> tuple[AgentChoice, ...]:
        """Return the agents of `baseline,bm25@512,mine=python:module:name,theirs=a2a:URL`."""
        equal = ("full", *(f"{name}={name}@{budget}" for name in _BUDGETED), "oracle")
        items: list[str] = []
        for item in _split(text):
            items += equal if item == EQUAL_BUDGET else (item,)
        choices = [self._agent(item) for item in items]
        names = [choice.name for choice in choices]
        if not names:
            raise InvalidInput("--agents must name at least one agent")
        if len(set(names)) < len(names):
            raise InvalidInput(f"agent names must be unique, got {', '.join(names)}")
        return tuple(choices)

    def _agent(self, item: str) -> AgentChoice:
        name, equals, kind = item.partition("=")
        kind = kind if equals else name
        if not equals:
            name = "-".join(str(part) for part in split_budget(name) if part is not None)
        if not name or not name.replace("-", "").replace("_", "").isalnum():
            memory, at, tokens = kind.partition("@")
            if at and memory in AGENT_KINDS:
                raise InvalidInput(
                    f"{item!r}: the budget must be a number of tokens, such as {memory}@512, "
                    f"got {tokens!r}"
                )
            meant = _likely_agent("NAME", kind) if not equals else ""
            raise InvalidInput(
                f"{item!r}: {meant}an agent's name must consist of letters, digits, - and _"
            )
        if kind.partition(":")[0] in (*FRAMEWORK_PREFIXES, CHAT_PREFIX):
            kind = f"{PYTHON_REFERENCE}{kind}"  # they are code of the user too
        if kind.startswith(PYTHON_REFERENCE):
            self._sources.check_object(kind.removeprefix(PYTHON_REFERENCE))
        elif kind.startswith(REMOTE_REFERENCE):
            check_agent_url(kind.removeprefix(REMOTE_REFERENCE))
        elif kind.startswith(COMPRESSOR_REFERENCE):
            compressor, _ = split_budget(kind.removeprefix(COMPRESSOR_REFERENCE))
            self._check_compressor(compressor)
        elif (memory := split_budget(kind)[0]) in AGENT_KINDS:
            kind = kind.replace(memory, AGENT_KINDS[memory], 1)
        else:
            meant = suggest_memory(memory, AGENT_KINDS) or _likely_agent(name, kind)
            raise InvalidInput(
                f"unknown agent {kind!r}: {meant}choose one of {', '.join(AGENT_KINDS)}, "
                f"MEMORY@TOKENS such as bm25@512, {EQUAL_BUDGET}, NAME=acc:MODEL, "
                "NAME=python:MODULE:NAME, NAME=FRAMEWORK:MODULE:NAME with one of "
                f"{', '.join(FRAMEWORK_PREFIXES)}, NAME=openai:URL#MODEL or NAME=a2a:URL"
            )
        return AgentChoice(name=name, kind=kind)

    def _check_compressor(self, name: str) -> None:
        if name != RULE_COMPRESSOR:
            self._sources.check_model(name)

    def _conversations(self, request: EvaluationRequest) -> tuple[ScenarioChoice, ...]:
        """Return the scenarios of a run, or the recorded conversations that it replays."""
        if not request.replay:
            if request.replay_format or request.annotations:
                raise InvalidInput("--replay-format and --annotations require --replay FILE")
            return self.scenarios(request.scenario)
        if request.scenario != "all":
            raise InvalidInput("--replay and --scenario exclude each other; omit one of them")
        if request.judge_options.drives:
            raise InvalidInput(
                "--judge-drives cannot be used with --replay: the queries come from the log"
            )
        return self._sources.replays(request.replay, request.replay_format, request.annotations)

    def scenarios(self, reference: str) -> tuple[ScenarioChoice, ...]:
        """Return the scenarios of `all`, an id, a path or a comma-separated list."""
        references = _split(reference)
        if references == ["all"]:
            references = list(self._sources.shipped_scenarios())
        if not references:
            raise InvalidInput("--scenario must name at least one scenario")
        choices = tuple(self._sources.scenario(item) for item in references)
        ids = [choice.id for choice in choices]
        if len(set(ids)) < len(ids):
            raise InvalidInput(f"scenario ids must be unique, got {', '.join(ids)}")
        return choices

    def judge(self, judge: str, options: JudgeOptions | None = None) -> JudgeConfig | None:
        """Return the configuration of a model judge, or None for any other judge."""
        options = options or JudgeOptions()
        if not 1 <= options.votes <= MAX_VOTES:
            raise InvalidInput(f"--judge-votes must be from 1 to {MAX_VOTES}, got {options.votes}")
        if not 0 <= options.temperature < math.inf:
            raise InvalidInput(f"--judge-temperature must be at least 0, got {options.temperature}")
        if judge.startswith(MODEL_JUDGE):
            names = _SEVERAL_JUDGES.split(judge.removeprefix(MODEL_JUDGE))
            return self._model_judge(names, options)
        if judge.startswith(PYTHON_REFERENCE):
            if self._sources.is_model_object(judge.removeprefix(PYTHON_REFERENCE)):
                return self._sources.judge_config(judge, None, options)
        elif judge != "rubric":
            raise InvalidInput(
                f"unknown judge {judge!r}: choose rubric, model:NAME, local:PATH.gguf or "
                "python:MODULE:NAME"
            )
        if options.votes != 1 or options.both_orders or options.drives or options.probabilities:
            raise InvalidInput(
                "--judge-votes, --judge-both-orders, --judge-drives and --judge-probabilities "
                "require a model judge: --judge model:NAME"
            )
        return None

    def _model_judge(self, names: Sequence[str], options: JudgeOptions) -> JudgeConfig:
        temperatures, models = zip(
            *(self._judge_model(name, options) for name in names), strict=True
        )
        if len(set(models)) < len(models):
            raise InvalidInput(f"the models of a judge must differ, got {', '.join(models)}")
        if 1 < options.votes < len(models):
            raise InvalidInput(
                f"--judge-votes must be at least {len(models)}, one for each model of the judge, "
                f"got {options.votes}"
            )
        if len(models) > MAX_VOTES:
            raise InvalidInput(f"a judge has at most {MAX_VOTES} models, got {len(models)}")
        options = replace(options, votes=max(options.votes, len(models)))
        return self._sources.judge_config(models[0], temperatures[0], options, models[1:])

    def _judge_model(self, name: str, options: JudgeOptions) -> tuple[float | None, str]:
        """Return the temperature and the full name of a model that may judge."""
        if not name:
            raise InvalidInput("--judge model:NAME requires the name of a model")
        if name == "embedded":
            raise InvalidInput(
                "the embedded model cannot judge: it extracts no claims, so every turn would be "
                "unscored. Without another model use --judge rubric"
            )
        if "|" in name:
            raise InvalidInput(
                "a judge must be one model: a fallback would change the judge during the run"
            )
        reason = self.judge_objection(name)
        if reason and not options.force:
            raise InvalidInput(
                f"{name} is rejected as a judge: {reason}. Use --force-judge to accept it"
            )
        provider = name.partition(":")[0]
        if options.probabilities and provider not in _HAVE_TOKEN_PROBABILITIES:
            raise InvalidInput(
                f"--judge-probabilities requires token probabilities, which {provider} models do "
                f"not return here; use one of {', '.join(_HAVE_TOKEN_PROBABILITIES)}"
            )
        temperature, name = _with_temperature(name, options.temperature)
        self._sources.check_model(name)
        return temperature, name

    def judge_objection(self, name: str) -> str:
        """Return why a model should not judge, or an empty text."""
        reasons = (_objection(one.partition("?")[0]) for one in self._sources.names(name))
        return next(filter(None, reasons), "")


def judge_reference(judge: str) -> str:
    """Return the full name of a judge: `local:PATH` is `model:local:PATH`, also in a list."""
    parts = re.split(r",(?=(?:model|local):)", judge)
    full = [f"{MODEL_JUDGE}{part}" if part.startswith("local:") else part for part in parts]
    return ",".join(full)


def summarizer(model: str, compressor: str) -> str:
    """Return the model that writes running summaries, or "" if sentences are selected."""
    if compressor != RULE_COMPRESSOR:
        return compressor
    return "" if model == "embedded" else model


def memory_budgets(configuration: EvaluationConfig) -> dict[str, dict[str, str | int | None]]:
    """Return memory and token budget of each agent; both are None for agents of others.

    The tokens of a memory without a budget are None.
    """
    budgets: dict[str, dict[str, str | int | None]] = {}
    for agent in configuration.agents:
        if agent.kind.startswith((PYTHON_REFERENCE, REMOTE_REFERENCE)):
            budgets[agent.name] = {"memory": None, "tokens": None}
            continue
        budgets[agent.name] = {
            "memory": split_budget(agent.kind)[0],
            "tokens": budget_tokens(
                agent.kind, window=configuration.window, budget=configuration.budget
            ),
        }
    return budgets


def budget_text(budget: Mapping[str, str | int | None]) -> str:
    """Return the token budget of an agent as words."""
    if budget["memory"] is None:
        return "not known"
    if budget["tokens"] is None:
        return "5 messages" if budget["memory"] == "retrieval" else "none"
    return f"{budget['tokens']:,}"


def run_name(configuration: EvaluationConfig) -> str:
    """Return a readable name that is the same for equal configurations."""
    ids = [scenario.id for scenario in configuration.scenarios]
    digest = hashlib.sha256(msgspec.json.encode(configuration)).hexdigest()[:8]
    return f"{ids[0] if len(ids) == 1 else 'all'}-{configuration.episodes}x-{digest}"


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _objection(name: str) -> str:
    if name == "local":
        return (
            "the small local model has 135 million parameters and judges no better than chance; it "
            "is meant for trying things out"
        )
    if name.startswith("local:"):
        return (
            f"the judgements of {name} were never measured; run acc judge check on labelled "
            "examples first"
        )
    if name == "embedded":
        return "the embedded model is a fixed set of rules that copies from its prompt"
    return ""


def _with_temperature(name: str, temperature: float) -> tuple[float | None, str]:
    """Return the temperature and a name that sets it; a temperature in the name has priority."""
    head, question_mark, text = name.partition("?")
    settings = dict(part.partition("=")[::2] for part in text.split("&") if part)
    if "temperature" in settings:
        try:
            return float(settings["temperature"]), name
        except ValueError:
            raise InvalidInput(
                f"{name}: temperature must be a number, got {settings['temperature']!r}"
            ) from None
    if ":" not in head:
        return None, name  # models without a provider have no settings
    return temperature, f"{name}{'&' if question_mark else '?'}temperature={temperature:g}"


def _likely_agent(name: str, kind: str) -> str:
    """Return a question with the form that an agent without its prefix probably needs."""
    if kind.startswith(("http://", "https://")):
        return f"did you mean {name}=a2a:{kind}? "
    if kind.startswith((PYTHON_REFERENCE, REMOTE_REFERENCE, COMPRESSOR_REFERENCE)):
        return f"did you mean {name}={kind}? "
    return f"did you mean {name}=python:{kind}? " if _MODULE_AND_NAME.fullmatch(kind) else ""
