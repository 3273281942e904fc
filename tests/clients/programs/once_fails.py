"""0.3.0: work that fails until its try number FIRST_GOOD. Call it until it gives a result or has failed for good."""

import json
import os
import sys

import runstate

attempts, first_good, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


@runstate.once(attempts=attempts)
def work(name: str) -> str:
    attempt = runstate.context().attempt
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{attempt}\n".encode())
    os.close(file)
    if attempt < first_good:
        raise ValueError(f"try {attempt} is bad")
    return f"try {attempt} is good"


errors = []
while True:
    try:
        print(json.dumps({"result": work("piece"), "errors": errors}))
        break
    except runstate.OnceFailedError as error:
        print(json.dumps({"failed": str(error), "attempts": error.attempts, "errors": errors}))
        break
    except ValueError as error:
        errors.append(str(error))
