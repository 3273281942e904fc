"""0.3.0: one piece of work after the other until SIGTERM; any error ends the program with a traceback."""

import json
import os
import signal
import sys

import runstate

prefix, path = sys.argv[1], sys.argv[2]
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(True))


@runstate.once
def work(piece: str) -> str:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{piece}\n".encode())
    os.close(file)
    return piece


number = 0
while not asked:
    piece = f"{prefix}-{number}"
    assert work(piece) == piece
    assert work(piece) == piece
    number += 1
print(json.dumps({"done": number}))
