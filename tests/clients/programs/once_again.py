"""0.3.0: the same work in a run, in the run after it of the same name, and as seen by one who stayed with the first."""

import json
import sys

import runstate

name, end = sys.argv[1], sys.argv[2]
executions = []


def work(number: int) -> int:
    executions.append(number)
    return len(executions)


first = runstate.Runstate(run=name)
once = first.once(work)
results = [once(1), once(1)]
ids = [first.run_id()]
getattr(first, end)()
try:
    once(1)
    stopped = False
except runstate.StoppedError:
    stopped = True

second = runstate.Runstate(run=name)
results += [second.once(work)(1), second.once(work)(1)]
ids.append(second.run_id())
print(json.dumps({"results": results, "ids": ids, "executions": executions, "stopped": stopped}))
