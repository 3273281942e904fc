"""Brings the started nodes of a local cluster to where a program can use them.

Bootstraps once, waits until the nodes are ready, and sees to it that `DIR/env` holds a key that works. Each step looks
first whether it is done, so that a start that was interrupted anywhere is taken up by the next.
"""

import asyncio
import time
from collections.abc import Callable

from api.cli.calls import Unreachable, operator_call, operator_list, request
from api.cli.connection import Connection
from api.cli.environment_file import (
    API_KEY,
    BASE_URL,
    ENDPOINTS,
    OPERATOR_KEY,
    SPACE_ID,
    read_environment_file,
    write_environment_file,
)
from api.cli.failure import CommandError
from api.cli.local_cluster import LocalCluster
from api.cli.probe import Probe, probe

SPACE_NAME = "default"

# How long all nodes may take before a majority is enough to begin with.
ALL_READY_SECONDS = 20.0
_PROBE_PAUSE_SECONDS = 0.1
_REMIND_SECONDS = 10.0

Report = Callable[[str], None]


async def prepare(local: LocalCluster, report: Report) -> dict[str, str]:
    """Everything between started processes and a usable cluster. Returns what to export; secrets of operators are not
    in it. Raises CommandError when it cannot be."""
    if local.state.cluster_id is None:
        report("bootstrapping")
        local.state.cluster_id = await _bootstrap(local)
        local.save()
    await _until_ready(local, report)
    values = await asyncio.to_thread(_ensure_environment, local)
    return {name: values[name] for name in (BASE_URL, ENDPOINTS, API_KEY, SPACE_ID)}


async def _bootstrap(local: LocalCluster) -> str:
    from cluster.bootstrap import BootstrapError, bootstrap

    try:
        return await bootstrap({member.id: member.peer_address for member in local.members})
    except BootstrapError as error:
        raise CommandError(str(error)) from None


async def _until_ready(local: LocalCluster, report: Report) -> None:
    began = time.monotonic()
    said, said_at = "", began
    while True:
        probes = await asyncio.gather(*(asyncio.to_thread(probe, member.url) for member in local.members))
        waiting = [
            f"{member.id} ({found.problem})"
            for member, found in zip(local.members, probes, strict=True)
            if found.problem
        ]
        if not waiting or (time.monotonic() - began > ALL_READY_SECONDS and _usable(local, probes)):
            if waiting:
                report(f"going on without {', '.join(waiting)}; `runstate status` shows when it is back")
            return
        line = f"waiting for {', '.join(waiting)}"
        if line != said or time.monotonic() - said_at > _REMIND_SECONDS:
            report(line)
            said, said_at = line, time.monotonic()
        await asyncio.sleep(_PROBE_PAUSE_SECONDS)


def _usable(local: LocalCluster, probes: list[Probe]) -> bool:
    return sum(not found.problem for found in probes) > local.nodes // 2


def _ensure_environment(local: LocalCluster) -> dict[str, str]:
    """Make the space, the key and `DIR/env` where they are missing or no longer work."""
    endpoints = tuple(member.url for member in local.members)
    operator = Connection(endpoints, local.operator_key)
    old = read_environment_file(local.environment_path)
    key, space_id = old.get(API_KEY), old.get(SPACE_ID)
    if not key or not space_id or not _works(endpoints, key, space_id):
        space_id = _ensure_space(local, operator)
        made = operator_call(operator, "POST", f"/admin/v1/spaces/{space_id}/keys", {"name": "runstate up"})
        key = str(made["key"])
    values = {
        BASE_URL: endpoints[0],
        ENDPOINTS: ",".join(endpoints),
        API_KEY: key,
        SPACE_ID: space_id,
        OPERATOR_KEY: local.operator_key,
    }
    write_environment_file(local.environment_path, values)
    return values


def _works(endpoints: tuple[str, ...], key: str, space_id: str) -> bool:
    """Whether the key opens that space. Raises CommandError when no node can say."""
    failures = []
    for endpoint in endpoints:
        try:
            answer = request(endpoint, "GET", "/v1/whoami", key=key)
        except Unreachable as error:
            failures.append(f"{endpoint}: {error}")
            continue
        if answer.status == 200:
            return bool(answer.body.get("spaceId") == space_id)
        if answer.status < 500:
            return False
        failures.append(f"{endpoint}: {answer.error}")
    raise CommandError("\n  ".join(["the key in the directory could not be checked:", *failures]))


def _ensure_space(local: LocalCluster, operator: Connection) -> str:
    spaces = operator_list(operator, "/admin/v1/spaces", "spaces")
    known = {str(space["id"]) for space in spaces}
    if local.state.space_id not in known:
        named = [str(space["id"]) for space in spaces if space["name"] == SPACE_NAME]
        local.state.space_id = (
            named[0] if named else str(operator_call(operator, "POST", "/admin/v1/spaces", {"name": SPACE_NAME})["id"])
        )
        local.save()
    assert local.state.space_id is not None
    return local.state.space_id
