"""Kill workers, servers and the database at random while tasks are executed.

Three workers and two servers on one PostgreSQL database, with the Temporal engine. Every task
writes three entries to a ledger with a unique key, and a client follows its stream.

After a kill, every task must make progress within 10 seconds. With `--together 2` and a pause above
that, two processes are killed at the same time and no other kill explains a delay.

Command: python benchmarks/chaos.py [--tasks 1000] [--seed 1] [--pause 2 5] [--together 1]
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests" / "support"), str(ROOT / "tests" / "integration")]

from chaos_fleet import Plan, run_chaos  # noqa: E402 - found through the path above


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, nargs=2, default=(2.0, 5.0), metavar="SECONDS")
    parser.add_argument("--together", type=int, default=1, metavar="PROCESSES")
    parser.add_argument("--step", type=float, default=0.05, metavar="SECONDS", help="of a tool")
    parser.add_argument("--logs", type=Path, help="keep the logs of all processes in this folder")
    options = parser.parse_args()
    low, high = options.pause
    plan = Plan(
        tasks=options.tasks,
        seed=options.seed,
        pause=(low, high),
        together=options.together,
        step_seconds=options.step,
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.logs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        report = asyncio.run(run_chaos(folder, plan))
    print(
        f"{plan.tasks} tasks, seed {plan.seed}, {plan.together} killed every {low:g} to {high:g} s"
    )
    print(report)
    return int(bool(report.violations))


if __name__ == "__main__":
    sys.exit(main())
