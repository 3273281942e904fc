"""0.1.1, 0.2.0: a tree of runs, made through one node and looked at through another."""

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta

from runstate import AsyncRunstate, ConflictError, NotFoundError, ScopeCancelledError


async def main() -> None:
    seen = {}
    async with AsyncRunstate(base_url=sys.argv[1]) as here, AsyncRunstate(base_url=sys.argv[2]) as there:
        root = await here.scopes.create(child_limit=3)
        child = await root.child()
        grandchild = await child.child()
        other = await root.child()

        async def states() -> list:
            scopes = [await there.scope(scope.id).status() for scope in (root, child, grandchild, other)]
            return [[scope["storedState"], scope["effective"]] for scope in scopes]

        seen["parents"] = [
            (await there.scope(child.id).status())["parentId"] == root.id,
            (await there.scope(grandchild.id).status())["parentId"] == child.id,
        ]
        seen["active"] = await states()
        await root.child()
        try:
            await root.child()
        except ConflictError as error:
            seen["limit"] = error.code
        held = await grandchild.claim("k").acquire()
        await there.scope(child.id).cancel()
        seen["cancelled"] = await states()
        for name, attempt in (
            ("acquire", there.scope(grandchild.id).claim("other").acquire()),
            ("renew", held.renew()),
            ("child", there.scope(grandchild.id).child()),
        ):
            try:
                await attempt
            except ScopeCancelledError as error:
                seen[name] = error.code
        await held.release()  # what is held can be handed back
        await (await other.claim("k").acquire()).release()  # beside it, work goes on
        await there.scope(root.id).complete()
        seen["completed"] = await states()
        late = await here.scopes.create(deadline=(datetime.now(UTC) - timedelta(seconds=1)).isoformat())
        try:
            await late.claim("k").acquire()
        except ConflictError as error:
            seen["deadline"] = error.code
        try:
            await here.scope("scp_none").status()
        except NotFoundError as error:
            seen["unknown"] = error.code
    print(json.dumps(seen))


asyncio.run(main())
