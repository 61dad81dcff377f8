"""A worker, a server and the database are killed while tasks are executed.

`make chaos` does the same with 1,000 tasks and random kills.
"""

from pathlib import Path

from chaos_fleet import Plan, run_chaos


async def test_killed_processes_lose_repeat_and_delay_nothing(tmp_path: Path) -> None:
    plan = Plan(
        tasks=20,
        seed=7,
        workers=2,
        concurrency=10,
        pause=(0.5, 1.0),
        outage=(0.2, 0.5),
        step_seconds=0.2,
        victims=(("worker0",), ("database",), ("server0",)),
    )
    report = await run_chaos(tmp_path, plan)
    assert report.violations == []
    assert report.states == {"completed": plan.tasks}
    assert report.kills.keys() == {"worker", "database", "server"}
    assert report.takeovers
    assert report.reconnects > 0


async def test_two_processes_that_are_killed_together_are_replaced_in_time(tmp_path: Path) -> None:
    plan = Plan(
        tasks=60,
        seed=8,
        workers=3,
        concurrency=30,
        pause=(7.0, 7.0),
        outage=(0.2, 0.5),
        step_seconds=0.4,
        victims=(("worker0", "worker1"), ("worker2", "database")),
    )
    report = await run_chaos(tmp_path, plan)
    assert report.violations == []
    assert report.states == {"completed": plan.tasks}
    assert report.kills == {"worker": 3, "database": 1}
    assert report.takeovers
