"""0.3.0: begin a piece of work; with "hang" never end it, else end it at once. The lease is the shortest there is."""

import json
import os
import sys
import time

import runstate

mode, path = sys.argv[1], sys.argv[2]


@runstate.once(lease="5s")
def work(name: str) -> int:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{os.getpid()}\n".encode())
    os.close(file)
    print(json.dumps({"began": os.getpid()}))
    while mode == "hang":
        time.sleep(1)
    return os.getpid()


print(json.dumps({"calls": True}))
try:
    print(json.dumps({"result": work("piece")}))
except runstate.LeaseLostError as error:
    print(json.dumps({"lost": error.code}))
