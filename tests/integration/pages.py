"""How much of a store a statement reads."""

from __future__ import annotations

import json
from typing import Any

from tests.support.world import World


def pages(world: World, store: str, query: str) -> int:
    """The fewest pages that a statement touches after the first time in a session; what it changed is rolled back.

    An autovacuum that ends meanwhile makes a session read its catalog anew, and that run reads more.
    """
    with world.session(store) as session, session.cursor() as cursor:
        cursor.execute("set enable_seqscan = off")
        session.commit()
        cursor.execute(query)
        session.rollback()
        touched = []
        for _ in range(3):
            cursor.execute(f"explain (analyze, buffers, format json) {query}")
            plan: Any = cursor.fetchone()[0]
            session.rollback()
            node = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
            touched.append(int(node["Shared Hit Blocks"] + node["Shared Read Blocks"]))
    return min(touched)
