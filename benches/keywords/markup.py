"""Text of HTML pages and plain text files, as paragraphs."""

from dataclasses import dataclass
from html.parser import HTMLParser

SKIPPED = {"button", "footer", "nav", "script", "select", "style", "svg", "template"}
HEADINGS = {"h1", "h2", "h3", "h4", "title"}
# Elements inside of a line. All others begin and end a paragraph.
INLINE = set(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark q s samp "
    "small span strong sub sup time tt u var wbr".split()
)


@dataclass
class Paragraph:
    text: str
    is_heading: bool = False


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.paragraphs = []
        self.parts = []
        self.skipped = 0
        self.in_heading = False

    def handle_starttag(self, tag, attributes):
        if tag in SKIPPED:
            self.skipped += 1
        elif tag not in INLINE:
            self.end_paragraph()
            self.in_heading = tag in HEADINGS

    def handle_endtag(self, tag):
        if tag in SKIPPED:
            self.skipped = max(0, self.skipped - 1)
        elif tag not in INLINE:
            self.end_paragraph()
            self.in_heading = False

    def handle_data(self, data):
        if not self.skipped:
            self.parts.append(data)

    def end_paragraph(self):
        # the pilcrow and the section sign are links to headings
        text = " ".join("".join(self.parts).replace("¶", " ").replace("§", " ").split())
        if text:
            self.paragraphs.append(Paragraph(text, self.in_heading))
        self.parts = []


def paragraphs_of_html(text):
    page = Page()
    page.feed(text)
    page.close()
    page.end_paragraph()
    return page.paragraphs


def paragraphs_of_text(text):
    return [Paragraph(" ".join(part.split())) for part in text.split("\n\n") if part.strip()]
