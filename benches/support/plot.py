"""Line charts as SVG, for light and dark pages."""

import math
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 480
LEFT, RIGHT, TOP, BOTTOM = 76, 140, 48, 60
# Colours of the lines on light pages, and on dark ones.
COLOURS = [
    ("#0b63ce", "#6cb0ff"), ("#d1550f", "#ff9a5c"), ("#5b9bf0", "#3f7fd6"), ("#f0a06c", "#c9703a")]
RECALLS = [0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999]


@dataclass
class Axis:
    label: str
    # "log", or "recall": each halving of the missed share has the same length, down to 1/10,000
    scale: str

    def place(self, value):
        return math.log10(value) if self.scale == "log" else -math.log10(max(1 - value, 1e-4))

    def fit(self, values):
        """Sets the range, with some margin around the values."""
        places = [self.place(value) for value in values]
        room = 0.05 * (max(places) - min(places) or 1)
        self.low, self.high = min(places) - room, max(places) + room

    def part(self, value):
        """Returns the position of a value, from 0 to 1."""
        return (self.place(value) - self.low) / (self.high - self.low)

    def ticks(self):
        if self.scale == "recall":
            choice = RECALLS
        else:
            decades = range(math.floor(self.low), math.ceil(self.high) + 1)
            steps = [1, 2, 5] if self.high - self.low < 2.5 else [1]
            choice = [step * 10.0**decade for decade in decades for step in steps]
        return [value for value in choice if self.low <= self.place(value) <= self.high]


def plot(path, title, x, y, series):
    """`series`: label -> [(x, y, tooltip)]. Labels are at the ends of the lines."""
    series = {label: points for label, points in series.items() if points}
    if not series:
        return
    x.fit([point[0] for points in series.values() for point in points])
    y.fit([point[1] for points in series.values() for point in points])
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    across = lambda value: f"{LEFT + x.part(value) * (right - LEFT):.1f}"
    up = lambda value: f"{bottom - y.part(value) * (bottom - TOP):.1f}"
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13" class="text">',
        f"<style>{style()}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" class="page"/>',
        f'<text x="{LEFT}" y="28" font-size="15" font-weight="bold">{escape(title)}</text>',
        f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 16}" text-anchor="middle">{escape(x.label)}</text>',
        f'<text transform="translate(20 {(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle">{escape(y.label)}</text>',
    ]
    for value in x.ticks():
        out.append(f'<path d="M{across(value)} {TOP}V{bottom}" class="grid"/>')
        out.append(
            f'<text x="{across(value)}" y="{bottom + 20}" text-anchor="middle">{value:g}</text>')
    for value in y.ticks():
        out.append(f'<path d="M{LEFT} {up(value)}H{right}" class="grid"/>')
        out.append(
            f'<text x="{LEFT - 8}" y="{float(up(value)) + 4:.1f}" text-anchor="end">{value:g}</text>')
    labels = place_labels({label: float(up(points[-1][1])) for label, points in series.items()})
    for number, (label, points) in enumerate(series.items()):
        colour = f"c{number % len(COLOURS)}"
        line = " ".join(f"{across(a)},{up(b)}" for a, b, _ in points)
        out.append(f'<polyline points="{line}" class="line {colour}"/>')
        for a, b, says in points:
            says = escape(f"{label}, {says}: {a:.4g}, {b:.4g}")
            out.append(
                f'<circle cx="{across(a)}" cy="{up(b)}" r="4" class="{colour}"><title>{says}</title></circle>')
        last = min(float(across(points[-1][0])) + 10, right + 6)
        out.append(
            f'<text x="{last:.1f}" y="{labels[label] + 4:.1f}" class="{colour}" font-weight="bold">{escape(label)}</text>')
    with open(path, "w") as file:
        file.write("\n".join([*out, "</svg>", ""]))


def style():
    """Returns rules in CSS. A dark page, or a reader who prefers one, gets the second colours."""
    rules = lambda page, text, grid, which: "".join([
        f".page{{fill:{page}}}.text{{fill:{text}}}.grid{{stroke:{grid}}}",
        *(f".c{n}{{fill:{both[which]}}}.line.c{n}{{fill:none;stroke:{both[which]}}}"
          for n, both in enumerate(COLOURS)),
    ])
    light = rules("#fff", "#333", "#e4e4e4", 0)
    dark = rules("#0d1117", "#c9d1d9", "#30363d", 1)
    return f".line{{stroke-width:2}}{light}@media(prefers-color-scheme:dark){{{dark}}}"


def place_labels(heights, apart=17):
    """Returns the heights, moved down where labels would overlap."""
    placed, last = {}, -math.inf
    for label, height in sorted(heights.items(), key=lambda item: item[1]):
        last = placed[label] = max(height, last + apart)
    return placed
