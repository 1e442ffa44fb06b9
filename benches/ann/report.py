"""Rows that compare the two sides."""

from support.results import row


def compare(figure, values, form="{:.0f}", at_most=None, at_least=None, met=None, target=None):
    """Adds a row. `values` is side name -> number, or None if it was not reached.

    The ratio is rag's to pgvector's, and the limits are ratios. If the target is not a ratio,
    `met` and `target` replace them.
    """
    rag, peer = values.get("rag"), values.get("pgvector")
    ratio = rag / peer if rag is not None and peer else None
    limit = at_most if at_least is None else at_least
    if limit is not None:
        target = f"{'<=' if at_least is None else '>='} {limit:.3g} x"
        if "rag" in values and "pgvector" in values:
            met = ratio is not None and (ratio <= limit if at_least is None else ratio >= limit)
    show = lambda name: (
        ""
        if name not in values
        else "not reached" if values[name] is None else form.format(values[name])
    )
    row(figure, show("rag"), show("pgvector"), ratio, target or "", met)


def at(points, recall):
    """Returns the value at a recall, interpolated between points (recall, value) in order of ef.

    Returns None above all points. If even the first point has more recall, its value is returned,
    which is an upper bound.
    """
    for (low, below), (high, above) in zip(points, points[1:]):
        if points[0][0] >= recall:
            return points[0][1]
        if low < recall <= high:
            return below + (above - below) * (recall - low) / (high - low)
    return None
