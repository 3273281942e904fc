"""`/metrics`: what the node counts, in the text format of Prometheus.

The hot path counts in plain numbers (`measures`, `cluster.metrics`); they get names, help and labels only when they are
asked for. Names are part of the interface: dashboards and alerts read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from api.call import Call
from api.endpoint import Page
from api.measures import Measures
from api.own import OwnEndpoint
from api.replica import Replica
from cluster.metrics import Histogram, Metrics

TEXT_FORMAT = "text/plain; version=0.0.4; charset=utf-8"

# Of the Raft core; everything else there is a counter.
RAFT_GAUGES = {
    "term": "the current term",
    "is_leader": "1 while this node leads",
    "commit_index": "log index up to which a majority has the log",
    "applied_index": "log index up to which this node's state has come",
    "last_index": "the last log index of this node",
    "operations_waiting": "operations at this node that are not on their way yet",
    "operations_pending": "operations of this node whose outcome is not known yet",
    "image_index": "log index up to which the state is in this node's last durable image",
    "wall_clock_alarm": "1 while no majority of clocks agrees",
}


class Counts(Collector):
    """connections, in_flight, long_polls: how many there are now."""

    def __init__(
        self,
        replica: Replica,
        measures: Measures,
        connections: Callable[[], int],
        in_flight: Callable[[], int],
        long_polls: Callable[[], int],
    ) -> None:
        self._replica = replica
        self._measures = measures
        self._now = {
            "runstate_connections": ("connections of clients", connections),
            "runstate_requests_in_flight": ("requests that have no answer yet, long polls included", in_flight),
            "runstate_long_polls": ("requests that wait for something to happen", long_polls),
        }

    def collect(self) -> Iterator[Metric]:
        yield from self._http()
        yield from _raft(self._replica.metrics)
        yield self._certificates()
        machine = self._replica.machine
        yield CounterMetricFamily(
            "runstate_machine_defects", "operations and due items undone for a defect", value=machine.defects
        )

    def _certificates(self) -> Metric:
        ends = GaugeMetricFamily(
            "runstate_certificate_expires_seconds",
            "Unix time at which the certificate of a connected member ends, without TLS nothing",
            labels=("node",),
        )
        for member in self._replica.status().members:
            if member.certificate_ends_at is not None:
                ends.add_metric((member.id,), member.certificate_ends_at)
        return ends

    def _http(self) -> Iterator[Metric]:
        measures = self._measures
        requests = CounterMetricFamily(
            "runstate_requests", "answered requests and operations of batches", labels=("operation", "status", "code")
        )
        for (operation, status, code), number in sorted(measures.requests.items()):
            requests.add_metric((operation, str(status), code), number)
        yield requests
        seconds = HistogramMetricFamily(
            "runstate_request_seconds", "to the answer, without waits on purpose", labels=("operation",)
        )
        for operation, histogram in sorted(measures.seconds.items()):
            seconds.add_metric((operation,), *_buckets(histogram))
        yield seconds
        yield _histogram(
            "runstate_commit_seconds", "from a proposal to its outcome at this node", measures.commit_seconds
        )
        yield CounterMetricFamily(
            "runstate_operations_forwarded", "operations proposed while another node led", value=measures.forwarded
        )
        yield CounterMetricFamily(
            "runstate_requests_unanswered",
            "connections closed because nobody knows the outcome and a repeat would not be safe",
            value=measures.unanswered,
        )
        yield CounterMetricFamily(
            "runstate_requests_gone", "requests whose client left before the answer", value=measures.gone
        )
        for name, (about, read) in self._now.items():
            yield GaugeMetricFamily(name, about, value=read())


class MetricsPage:
    def __init__(self, counts: Counts) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(counts)
        ProcessCollector(registry=self._registry)

    def endpoint(self) -> OwnEndpoint:
        return OwnEndpoint(
            "metrics",
            "GET",
            "/metrics",
            None,
            "Counters and gauges in the text format of Prometheus.",
            self.respond,
            content_type="text/plain",
        )

    async def respond(self, _: Call) -> Page:
        return Page(200, TEXT_FORMAT, generate_latest(self._registry))


def _raft(metrics: Metrics) -> Iterator[Metric]:
    for field in fields(metrics):
        value = getattr(metrics, field.name)
        name = f"runstate_raft_{field.name}"
        if isinstance(value, Histogram):
            yield _histogram(name, field.name.replace("_", " "), value)
        elif isinstance(value, dict):
            gauge = GaugeMetricFamily(name, field.name.replace("_", " "), labels=("node",))
            for node, number in sorted(value.items()):
                gauge.add_metric((node,), number)
            yield gauge
        elif field.name in RAFT_GAUGES:
            yield GaugeMetricFamily(name, RAFT_GAUGES[field.name], value=value)
        else:
            yield CounterMetricFamily(name, field.name.replace("_", " "), value=value)


def _histogram(name: str, about: str, histogram: Histogram) -> Metric:
    buckets, total = _buckets(histogram)
    return HistogramMetricFamily(name, about, buckets=buckets, sum_value=total)


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Cumulative counts by upper bound, as the format wants them, and the sum."""
    count = 0.0
    found: list[tuple[str, float]] = []
    for bound, number in zip((*map(str, histogram.bounds), "+Inf"), histogram.buckets, strict=True):
        count += number
        found.append((bound, count))
    return found, histogram.sum
