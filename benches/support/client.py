"""A client that takes little time itself: prepared statements through libpq, binary values."""

import json
import time
from dataclasses import dataclass

from psycopg import pq

from support.database import SCRATCH
from support.process import cpu_nanoseconds, together
from support.results import median


class Client:
    def __init__(self, database):
        self.connection = pq.PGconn.connect(
            f"host='{SCRATCH}' user=postgres dbname={database}".encode())
        if self.connection.status != pq.ConnStatus.OK:
            raise RuntimeError(self.connection.error_message.decode())
        self.pid = self.connection.backend_pid

    def close(self):
        self.connection.finish()

    def _checked(self, result):
        if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
            raise RuntimeError(result.error_message.decode())
        return result

    def execute(self, sql):
        self._checked(self.connection.exec_(sql.encode()))

    def set(self, settings):
        for name, value in settings.items():
            self.execute(f"SET {name} = '{value}'")

    def prepare(self, sql):
        """Replaces the prepared statement. Its plan is created by the first execution, and kept."""
        self.execute("DEALLOCATE ALL")
        self.execute("SET plan_cache_mode = force_generic_plan")
        self._checked(self.connection.prepare(b"measured", sql.encode()))

    def run(self, *parameters):
        return self._checked(self.connection.exec_prepared(b"measured", parameters,
            [1] * len(parameters), 1))

    def plan(self, sql):
        """The plan's nodes, outermost first."""
        rows = self._checked(self.connection.exec_(f"EXPLAIN (FORMAT JSON) {sql}".encode()))
        return list(nodes(json.loads(rows.get_value(0, 0))[0]["Plan"]))


def nodes(plan):
    yield plan
    for inner in plan.get("Plans", []):
        yield from nodes(inner)


@dataclass
class Run:
    found: list  # ids, a list for each query
    cpu: float  # of the backend, microseconds a query
    waits: list  # of the client, microseconds for each query
    seconds: float  # for all of them

    @property
    def p50(self):
        return median(self.waits)


def search(client, parameters):
    """Runs the prepared statement for each parameter."""
    results, waits = [], []
    with together(client.pid):
        cpu = cpu_nanoseconds(client.pid)
        began = time.perf_counter()
        for parameter in parameters:
            asked = time.perf_counter()
            results.append(client.run(parameter))
            waits.append((time.perf_counter() - asked) * 1e6)
        seconds = time.perf_counter() - began
        cpu = cpu_nanoseconds(client.pid) - cpu
    found = [[int.from_bytes(result.get_value(row,
        0)) for row in range(result.ntuples)] for result in results]
    return Run(found, cpu / 1000 / len(parameters), waits, seconds)
