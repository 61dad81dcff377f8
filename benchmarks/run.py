"""Measure acc against its limits. `make bench` runs all benchmarks; arguments select some.

Values are CPU time, medians over many interleaved rounds, because the machine is noisy.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from a2a import bench_a2a
from measurement import Measurement
from models import bench_models
from runtime import bench_sessions, bench_turns, conversation

from acc.application.use_cases.live_multi_agent_evaluation import LiveMultiAgentEvaluationUseCase
from acc.bootstrap import memory as parts
from acc.domain.value_objects.live_evaluation import (
    AgentTurnResponse,
    EvaluationTurnQuery,
    JudgeTurnResult,
)
from acc.domain.value_objects.memory import ConversationTurn, TurnSignal
from acc.testing import queries, verdict


class InstantAgent:
    def __init__(self, agent_name: str, wait: float = 0.0) -> None:
        self.agent_name = agent_name
        self._wait = wait
        self._answer = AgentTurnResponse(agent_name=agent_name, response_text="ok", memory_tokens=1)

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        if self._wait:
            await asyncio.sleep(self._wait)
        return self._answer


class InstantJudge:
    async def evaluate_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        responses: tuple[AgentTurnResponse, ...],
    ) -> JudgeTurnResult:
        return JudgeTurnResult(
            canonical_memory=canonical_memory,
            evaluations=tuple(VERDICTS[response.agent_name] for response in responses),
        )


NAMES = ("baseline", "retrieval", "acc")
VERDICTS = {name: verdict(name) for name in NAMES}


def episode(
    turns: int, wait: float
) -> tuple[LiveMultiAgentEvaluationUseCase, list[EvaluationTurnQuery]]:
    agents = [InstantAgent(name, wait) for name in NAMES]
    use_case = LiveMultiAgentEvaluationUseCase(agents=agents, judge=InstantJudge(), agent_timeout=5)
    return use_case, queries(*["a query"] * turns)


def bench_orchestration() -> list[Measurement]:
    async def one_round() -> float:
        use_case, turns = episode(200, 0.0)
        started = time.process_time()
        await use_case.run_episode(turns)
        return (time.process_time() - started) / len(turns) * 1000

    rounds = [asyncio.run(one_round()) for _ in range(15)]
    return [
        Measurement("orchestration of 3 instant agents", statistics.median(rounds), 0.2, "ms CPU")
    ]


def bench_waiting() -> list[Measurement]:
    async def one_round() -> float:
        use_case, turns = episode(5, 0.1)
        started = time.perf_counter()
        await use_case.run_episode(turns)
        return (time.perf_counter() - started) / len(turns) * 1000

    rounds = [asyncio.run(one_round()) for _ in range(5)]
    return [
        Measurement(
            "a turn of 3 agents that each wait 100 ms", statistics.median(rounds), 115, "ms"
        )
    ]


def bench_import() -> list[Measurement]:
    code = (
        "import time; started = time.process_time(); import acc;"
        "print(time.process_time() - started)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

    def once() -> float:
        done = subprocess.run(  # noqa: S603 - our own interpreter and code
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return float(done.stdout)

    once()
    return [Measurement("import acc", statistics.median(once() for _ in range(9)), 0.15, "s CPU")]


def bench_long_session() -> list[Measurement]:
    budget, turns = 512, 1000

    async def one_session(seed: int) -> tuple[list[float], int]:
        memory = parts.acc_memory(budget=budget)
        costs: list[float] = []
        most = 0
        for number, text in enumerate(conversation(turns, seed), start=1):
            signal = TurnSignal(turn_id=number, text=text)
            started = time.process_time()
            view = await memory.view(signal)
            await memory.record(ConversationTurn.of(number, text, "Noted."))
            costs.append((time.process_time() - started) * 1000)
            most = max(most, view.tokens)
        return costs, most

    parts.token_counter()
    asyncio.run(one_session(9000))
    sessions = [asyncio.run(one_session(seed)) for seed in (0, 3000, 6000)]
    # Early and late turns use the same 50 queries of a scenario, so that they are comparable.
    early = [cost for costs, _ in sessions for cost in costs[5:50]]
    late = [cost for costs, _ in sessions for cost in costs[905:950]]
    ratio = statistics.median(late) / statistics.median(early)
    return [
        Measurement(
            "largest CCS over 1,000 turns", max(most for _, most in sessions), budget + 1, "tokens"
        ),
        Measurement("cost of turns about 930 against turns about 30", ratio, 1.5, "times"),
    ]


def bench_full_run() -> list[Measurement]:
    """600 episodes of 50 turns for 3 agents, as the paper has them, over 4 scenarios."""
    scenarios = "it-operations,cybersecurity-response,healthcare-operations,finance-operations"
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "acc",
            "eval",
            "--scenario",
            scenarios,
            "--quiet",
            "--json",
        ]
        command += ["--agents", ",".join(NAMES), "--episodes", "150", "--workers", "2"]
        started = time.perf_counter()
        process = subprocess.Popen(  # noqa: S603 - our own interpreter
            [*command, "--out", str(Path(folder) / "run")], stdout=subprocess.PIPE
        )
        most = 0.0
        while process.poll() is None:
            most = max(most, resident_megabytes(process.pid))
            time.sleep(0.25)
        times = time.perf_counter() - started
        assert process.stdout is not None
        summary = json.loads(process.stdout.read())
    assert summary["turns"] == 30_000, "the run is incomplete"
    return [
        Measurement("600 episodes x 50 turns x 3 agents, 2 cores", times, 180, "s"),
        Measurement("the same, memory of all processes", most, 500, "MB"),
    ]


def resident_megabytes(root: int) -> float:
    """Return the memory of a process and all its descendants, shared pages counted once each."""
    total = 0.0
    pending = [root]
    while pending:
        number = pending.pop()
        try:
            folder = Path(f"/proc/{number}")
            pending += [int(n) for n in (folder / f"task/{number}/children").read_text().split()]
            fields = (folder / "smaps_rollup").read_text().splitlines()
            total += sum(int(f.split()[1]) for f in fields if f.startswith("Pss:")) / 1024
        except (OSError, ValueError):
            continue
    return total


BENCHES: dict[str, Callable[[], list[Measurement]]] = {
    "import": bench_import,
    "orchestration": bench_orchestration,
    "waiting": bench_waiting,
    "turns": bench_turns,
    "sessions": bench_sessions,
    "long-session": bench_long_session,
    "a2a": bench_a2a,
    "models": bench_models,
    "full-run": bench_full_run,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHES)}")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    options = parser.parse_args()
    unknown = set(options.names) - set(BENCHES)
    if unknown:
        parser.error(
            f"unknown benchmark {', '.join(sorted(unknown))}; expected one of {', '.join(BENCHES)}"
        )
    measurements: list[Measurement] = []
    for name in options.names or BENCHES:
        print(f"{name} …", file=sys.stderr, flush=True)
        results = BENCHES[name]()
        measurements += results
        if not options.json:
            for measurement in results:
                print(measurement)
    if options.json:
        print(
            json.dumps(
                [{**vars(m), "within_limit": m.within_limit} for m in measurements], indent=2
            )
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of this process {peak:.0f} MB", file=sys.stderr)
    return 0 if all(m.within_limit for m in measurements) else 1


if __name__ == "__main__":
    sys.exit(main())
