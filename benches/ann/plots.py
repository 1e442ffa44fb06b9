"""The plots, in the folder of the results."""

import os

from support.plot import Axis, plot

FOLDER = os.path.dirname(os.environ["BENCH_RESULTS"])


def plot_recall(name, title, curves):
    """`curves`: label -> [(ef, (recall, microseconds))]"""
    series = {
        label: [(cpu, found, f"ef_search {ef}") for ef, (found, cpu) in curve]
        for label, curve in curves.items()
    }
    plot(
        os.path.join(FOLDER, name),
        title,
        Axis("server CPU a query, µs", "log"),
        Axis("recall@10", "recall"),
        series,
    )


def plot_filters(name, title, times):
    """`times`: label -> [(share of the rows, milliseconds or None)]"""
    series = {
        label: sorted(
            (share * 100, cpu, f"{share * 100:g} %") for share, cpu in points if cpu is not None
        )
        for label, points in times.items()
    }
    plot(
        os.path.join(FOLDER, name),
        title,
        Axis("rows that match, %", "log"),
        Axis("server CPU a query, ms", "log"),
        series,
    )
