"""Options of `acc eval` and of the commands that continue its runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """What to evaluate."""

    scenario: Annotated[
        str,
        Parameter(
            help="The id of a shipped scenario, a .toml file, a comma-separated list, or all."
        ),
    ] = "all"
    replay: Annotated[
        Path | None,
        Parameter(
            help="A log of conversations, instead of scenarios: the messages of its users are "
            "sent to every agent."
        ),
    ] = None
    replay_format: Annotated[
        str,
        Parameter(
            help="The format of the log: openai, langsmith, langfuse, events or csv. [default: "
            "detected from the content]",
            show_default=False,
        ),
    ] = ""
    annotations: Annotated[
        Path | None,
        Parameter(help="The file of acc eval propose; only confirmed annotations count."),
    ] = None
    agents: Annotated[
        str,
        Parameter(
            help="Comma-separated agents: baseline (transcript, cut to the window), full "
            "(transcript without a limit), last-n, retrieval, bm25, summary, acc, oracle; "
            "MEMORY@TOKENS sets the token budget of one agent, such as bm25@512; equal-budget "
            "stands for all memories at the budget of acc, with full and oracle; "
            "NAME=python:MODULE:NAME for your own code, NAME=langgraph:MODULE:NAME (pydantic-ai, "
            "openai-agents, google-adk, agent-framework) for an agent of another framework, "
            "NAME=openai:URL#MODEL for an OpenAI-compatible server, or NAME=a2a:URL for a remote "
            "agent, whose token is read from ACC_TOKEN_NAME or ACC_TOKEN."
        ),
    ] = "baseline,retrieval,acc,oracle"
    model: Annotated[
        str,
        Parameter(
            help="The model of baseline, retrieval, acc and oracle: embedded, or PROVIDER:MODEL "
            "such as openai:gpt-5.2, whose key is read from the environment. [default: the value "
            "of ACC_AGENT_MODEL, or embedded]",
            show_default=False,
        ),
    ] = ""
    compressor: Annotated[
        str,
        Parameter(
            help="What reads the sentences for the memory acc: the name of a model, or rules for "
            "the embedded reader. NAME=acc:MODEL in --agents sets it for one agent. "
            "[default: the value of ACC_COMPRESSOR_MODEL, or rules]",
            show_default=False,
        ),
    ] = ""
    judge: Annotated[
        str,
        Parameter(
            help="The judge: rubric, model:NAME for a language model, local:PATH.gguf, several "
            "of these with commas, or python:MODULE:NAME for your own judge or model."
        ),
    ] = "rubric"
    claim_thresholds: Annotated[
        Path | None,
        Parameter(
            help="A file of acc judge thresholds: the scores from which a claim counts as "
            "supported. [default: those of the shipped examples]",
            show_default=False,
        ),
    ] = None
    judge_votes: Annotated[
        int, Parameter(help="Votes of a model judge; their agreement is reported.")
    ] = 1
    judge_both_orders: Annotated[
        bool,
        Parameter(help="Score answers in both orders and report the difference.", negative=()),
    ] = False
    judge_probabilities: Annotated[
        bool,
        Parameter(
            help="Decide whether a claim is supported by the probability of the word yes. The "
            "model must return token probabilities: openai, openai-compatible or local.",
            negative=(),
        ),
    ] = False
    judge_temperature: Annotated[float, Parameter(help="The temperature of a model judge.")] = 0.0
    judge_drives: Annotated[
        bool,
        Parameter(
            help="Let the model judge write the queries, from the topics of the scenario and the "
            "judge's canonical memory.",
            negative=(),
        ),
    ] = False
    force_judge: Annotated[
        bool, Parameter(help="Accept a model judge that is known to be too small.", negative=())
    ] = False
    episodes: Annotated[
        int, Parameter(help="Number of episodes of each scenario, each with its own seed.")
    ] = 1
    turns: Annotated[
        int | None,
        Parameter(help="Number of turns of an episode. [default: all]", show_default=False),
    ] = None
    seed: Annotated[int, Parameter(help="The seed of the first episode.")] = 0
    window: Annotated[
        int, Parameter(help="Maximum tokens of the transcript; older turns are omitted.")
    ] = 4096
    budget: Annotated[int, Parameter(help="Maximum tokens of acc, last-n, bm25 and summary.")] = 512
    timeout: Annotated[
        float | None,
        Parameter(
            help="Maximum seconds of an agent for a turn, without the time that its models wait "
            "for rate limits and retries."
        ),
    ] = 60.0


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to run the evaluation."""

    otel: Annotated[
        bool,
        Parameter(
            help="Export spans and metrics with OpenTelemetry over OTLP/HTTP. The variables "
            "OTEL_EXPORTER_OTLP_ENDPOINT and others configure it, and also enable it.",
            negative=(),
        ),
    ] = False
    workers: Annotated[
        int | None,
        Parameter(help="Number of worker processes. [default: one per core]", show_default=False),
    ] = None
    max_connections: Annotated[
        int | None,
        Parameter(
            help="Maximum number of concurrent calls to each model provider, over all workers. "
            "[default: no limit]",
            show_default=False,
        ),
    ] = None
    outage_wait: Annotated[
        float,
        Parameter(
            help="Seconds to wait for a provider that cannot be reached. After that the "
            "evaluation run ends, and the same command continues it with the same turn."
        ),
    ] = 60.0
    out: Annotated[
        Path | None,
        Parameter(
            help="The run directory. The same command with the same directory continues the "
            "evaluation run. [default: runs/NAME-OF-THE-RUN]",
            show_default=False,
        ),
    ] = None
    cache: Annotated[
        Path | None,
        Parameter(
            help="The folder of cached model responses: identical requests to provider models are "
            "not repeated. [default: the value of ACC_MODEL_CACHE, or none]",
            show_default=False,
        ),
    ] = None
    allow: Annotated[
        tuple[str, ...],
        Parameter(
            help="A host, address or network that may be called although it is not public. URLs of "
            "agents on this machine are always allowed. May be repeated.",
            negative=(),
            consume_multiple=False,
        ),
    ] = ()
    fail_if: Annotated[
        tuple[str, ...],
        Parameter(
            help='Exit with status 1 if a condition is true, for example "acc.drift > 0.05" or '
            '"acc.outcome < baseline.outcome". May be repeated.',
            negative=(),
            consume_multiple=False,
        ),
    ] = ()
    max_cost: Annotated[
        float | None,
        Parameter(
            help="Maximum cost of the evaluation run in US dollars, including recorded calls. If "
            "it is reached, no further turn starts and the exit status is 4. The same "
            "command with a higher limit continues the evaluation run."
        ),
    ] = None
    price: Annotated[
        tuple[str, ...],
        Parameter(
            help="MODEL=IN/OUT: the price of a model in US dollars per million input and output "
            "tokens; overrides the price list. May be repeated.",
            negative=(),
            consume_multiple=False,
        ),
    ] = ()
    dry_run: Annotated[
        bool,
        Parameter(
            help="Print the episodes and the estimated calls, tokens and cost. Nothing is called "
            "and nothing is written.",
            negative=(),
        ),
    ] = False
    like: Annotated[
        Path | None,
        Parameter(
            help="With --dry-run: a run directory with the same models. The estimate uses its "
            "recorded calls and tokens. [default: the recorded turns of this evaluation run]",
            show_default=False,
        ),
    ] = None
    json: Annotated[
        bool, Parameter(help="Print the summary, or the plan, as JSON.", negative=())
    ] = False
    quiet: Annotated[bool, Parameter(help="Print no progress and no table.", negative=())] = False
