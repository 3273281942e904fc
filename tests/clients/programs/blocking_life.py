"""0.1.1, 0.2.0: the blocking client: a run, a claim, its events."""

import json
import sys

from runstate import Runstate, ScopeCancelledError

client = Runstate(holder="me")
other = Runstate(base_url=sys.argv[1], holder="other")
scope = client.scopes.create()
start = client.events.list(limit=1)["nextCursor"]
lease = scope.claim("k").acquire(lease_seconds=10)
seen = {"generations": [lease.generation], "busy": other.scope(scope.id).claim("k").try_acquire()["kind"]}
lease.release()
seen["ran"] = other.scope(scope.id).claim("k").run(lambda lease: f"by generation {lease.generation}")
types = []
for event in client.watch(cursor=start, scope_id=scope.id, wait_seconds=5):
    types.append(event["type"])
    if len(types) == 5:
        break
seen["types"] = types
scope.cancel()
try:
    other.scope(scope.id).claim("k").acquire()
except ScopeCancelledError as error:
    seen["cancelled"] = error.code
print(json.dumps(seen))
