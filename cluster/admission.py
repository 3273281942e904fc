"""The leader's part in counting a member again: it lists an awaited one once that has what the others had committed.

Why in two entries, and why the second one only here, is said in `statemachine.admission`. What makes it safe is that
whoever has the second entry knows that the first is committed: this leader has applied the first, so its commit index,
which every frame with the second entry carries, covers it, and a follower keeps both in one transaction. A node that
knows it stands for election only after it has applied it (`cluster.election`).
"""

import logging

from cluster.engine import Engine
from cluster.intake import Intake
from cluster.replication import Replication
from statemachine.admission import list_node_operation
from statemachine.machine import Machine

log = logging.getLogger(__name__)


class Admission:
    def __init__(self, engine: Engine, machine: Machine, replication: Replication, intake: Intake) -> None:
        self._engine = engine
        self._machine = machine
        self._replication = replication
        self._intake = intake
        self._proposed_index = 0  # of the latest entry by which this leader lists a member

    def turn(self) -> None:
        """Only at a leader that has applied everything of the terms before."""
        awaited = self._machine.awaited()
        if not awaited or self._intake.paused or self._proposed_index > self._engine.applied_index:
            return
        for node_id, wanted in awaited.items():
            incarnation = self._replication.incarnation_that_has(node_id, wanted.index)
            if incarnation is not None and wanted.incarnation in (0, incarnation):
                log.info("%s has what the others have: it counts from now on, incarnation %d", node_id, incarnation)
                self._intake.append_alone(list_node_operation(node_id, incarnation))
                self._proposed_index = self._engine.last_index
                return

    def stop(self) -> None:
        """This node leads no more, or anew."""
        self._proposed_index = 0
