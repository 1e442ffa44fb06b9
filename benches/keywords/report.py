"""Rows that compare rag_bm25 with one peer."""

from support.results import row


def versus(figure, rag, label, peer, form="{:.1f}", at_most=None, at_least=None):
    """Adds a row. A side that was not measured is None. Limits are ratios of rag to the peer."""
    ratio = rag / peer if rag is not None and peer else None
    limit = at_most if at_least is None else at_least
    met, target = None, ""
    if limit is not None:
        target = f"{'<=' if at_least is None else '>='} {limit:.3g} x"
        if ratio is not None:
            met = ratio <= limit if at_least is None else ratio >= limit
    row(figure, show(rag, form), f"{show(peer, form)} ({label})", ratio, target, met)


def at_least(figure, rag, least, peers):
    """Adds a row whose limit is a value. `peers`: label -> value."""
    met = None if rag is None else rag >= least
    others = ", ".join(f"{show(value, '{:.4f}')} ({label})" for label, value in peers.items())
    row(figure, show(rag, "{:.4f}"), others, target=f">= {least}", met=met)


def none(figure, count):
    """Adds a row of something of which there must be none."""
    row(figure, str(count), target="0", met=count == 0)


def show(value, form):
    return "" if value is None else form.format(value)
