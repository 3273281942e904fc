"""0.3.0: watch a run until three pieces of work are done, and say what was seen."""

import json

import runstate

print(json.dumps({"run": runstate.run_id()}))
seen = []
for event in runstate.events(types=["once.acquired", "once.completed"]):
    print(json.dumps({f"event {len(seen) + 1}": event.type}))
    seen.append([event.type, event.data["key"], event.at.tzinfo is not None])
    if sum(kind == "once.completed" for kind, _, _ in seen) == 3:
        break
print(json.dumps({"seen": seen}))
