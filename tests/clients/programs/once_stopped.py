"""0.3.0: work that goes on until its signal says that the run has ended."""

import json

import runstate


@runstate.once
def work(name: str) -> None:
    print(json.dumps({"began": name}))
    runstate.context().signal.wait()


try:
    work("piece")
    print(json.dumps({"ended": "result"}))
except runstate.StoppedError as error:
    print(json.dumps({"ended": type(error).__name__}))
try:
    work("another")
    print(json.dumps({"next": "result"}))
except runstate.StoppedError as error:
    print(json.dumps({"next": type(error).__name__}))
