"""0.3.0: do the pieces of work 0 to N-1 once each, in an order of one's own; note every execution in a file."""

import json
import os
import random
import sys

import runstate

count, path, seed = int(sys.argv[1]), sys.argv[2], sys.argv[3]


@runstate.once
def work(number: int) -> dict:
    # O_APPEND: lines of several processes do not mix.
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{number} {os.getpid()}\n".encode())
    os.close(file)
    return {"number": number, "by": os.getpid(), "text": "größe ✓"}


numbers = list(range(count))
random.Random(seed).shuffle(numbers)
results = {number: work(number) for number in numbers}
print(json.dumps({"results": [results[number] for number in range(count)]}))
