"""A process whose clock differs from that of the database; it reports what it can lease.

Arguments: URL, seconds, and "start" or "later" for when the clock changes.
"""

import asyncio
import json
import sys
import time

url, shift, when = sys.argv[1], float(sys.argv[2]), sys.argv[3]
_real_time, _offset = time.time, [shift if when == "start" else 0.0]
# Before anything of acc is imported: all of it reads this clock.
time.time = lambda: _real_time() + _offset[0]

from acc.adapters.storage.postgres import PostgresDatabase  # noqa: E402
from acc.adapters.storage.postgres_sessions import PostgresSessionStore  # noqa: E402
from acc.adapters.storage.postgres_tasks import PostgresTaskStore  # noqa: E402
from acc.adapters.system.clock import SystemClock  # noqa: E402
from acc.domain.errors import SessionBusy  # noqa: E402
from acc.domain.value_objects.session import SessionKey  # noqa: E402

SHORT_LEASE_SECONDS = 2.0


async def main() -> None:
    database = PostgresDatabase(url)
    sessions = PostgresSessionStore(database, clock=SystemClock(), lease=SHORT_LEASE_SECONDS)
    tasks = PostgresTaskStore(database, clock=SystemClock(), app_name="desk")
    if when == "later":
        await sessions.read(SessionKey(app_name="desk", user_id="ann", session_id="other"))
        _offset[0] = shift
    claimed = await tasks.claim_orphans()
    try:
        await sessions.open(
            SessionKey(app_name="desk", user_id="ann", session_id="s1"), holder="thief"
        )
        is_busy = False
    except SessionBusy:
        is_busy = True
    # It never renews or releases this one.
    await sessions.open(
        SessionKey(app_name="desk", user_id="ann", session_id="own"), holder="shifted"
    )
    sys.stdout.write(json.dumps({"claimed": claimed, "is_busy": is_busy}))
    await tasks.aclose()


asyncio.run(main())
