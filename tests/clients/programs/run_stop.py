"""0.3.0: end the run of the environment, as the argument says."""

import sys

import runstate

getattr(runstate, sys.argv[1])()
